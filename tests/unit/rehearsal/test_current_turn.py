"""Finding the turn among what the CLIs put around it, and recalling numbers from the history alone."""

import pytest

from segue.rehearsal import current_turn
from segue.rehearsal.current_turn import find_turn
from segue.rehearsal.types import Item
from tests.unit.rehearsal.asks import ask, assistant, call, result, system, user

REMINDER = "<system-reminder>\nBe kind. [[say wrong]]\n</system-reminder>"
SURROUNDED = [
    ("alone", (user("[[say a]]"),)),
    ("reminder before", (user(REMINDER), user("[[say a]]"))),
    ("reminder after", (user("[[say a]]"), user(REMINDER))),
    ("reminder behind it", (user(f"[[say a]]\n\n{REMINDER}\n"),)),
    ("two reminders behind it", (user(f"[[say a]]\n{REMINDER}\n{REMINDER}"),)),
    ("system text after", (user("[[say a]]"), system("# Environment"))),
    (
        "notice after an empty answer",
        (user("[[say a]]"), user("[Your previous response had no visible output.]")),
    ),
    ("project document after", (user("[[say a]]"), user("# AGENTS.md instructions for /w\n\nx"))),
    (
        "environment before",
        (user("<environment_context>\n<cwd>/w</cwd>\n</environment_context>"), user("[[say a]]")),
    ),
    ("older turns", (user("[[say old]]"), assistant("old"), user("[[say a]]"))),
    ("failed prompt left behind", (user("[[error 500]]"), user("[[say a]]"))),
    ("transcript, divider", (user("User: [[say old]]\n--- new message ---\n[[say a]]"),)),
    ("transcript, heading", (user("## History\n[[say old]]\n## New message\n[[say a]]"),)),
    (
        "transcript, parts",
        (user("--- user ---\n[[say old]]\n\n--- you ---\n--- new message ---\n\n--- user ---\n[[say a]]"),),
    ),
    ("transcript, tag", (user("<conversation>\n[[say old]]\n</conversation>\n\n[[say a]]"),)),
]


@pytest.mark.parametrize("items", [items for _, items in SURROUNDED], ids=[name for name, _ in SURROUNDED])
def test_the_turn_is_what_the_user_wrote_last(items: tuple[Item, ...]) -> None:
    assert find_turn(ask(*items)).text == "[[say a]]"


def test_of_a_row_of_parts_the_last_is_whole_whatever_stands_in_it() -> None:
    text = "Why is this\n</div>\nnot closed?</div>"
    assert find_turn(ask(user(f"--- user ---\n<div>[[say old]]\n\n--- user ---\n{text}"))).text == text


def test_calls_and_results_since_the_turns_text_are_counted_once() -> None:
    before = (user("old"), call("1"), result("1"))
    turn = find_turn(
        ask(*before, user("new"), call("2"), result("2"), result("2"), user(REMINDER), call("3"), result("3"))
    )
    assert turn.before == before
    assert [item.call_id for item in turn.results] == ["2", "3"]
    assert turn.tools_done == 2


def test_a_lost_result_still_counts_as_progress() -> None:
    assert find_turn(ask(user("x"), call("1"))).tools_done == 1


def test_a_request_without_any_user_text_has_an_empty_turn() -> None:
    assert find_turn(ask(user(REMINDER))).text == ""


RECALLED = [
    ("noted", (user("remember number 456"),), "Noted: 456."),
    ("noted, worded", (user("Please remember the number 456, ok?"),), "Noted: 456."),
    ("known", (user("remember number 456"), assistant("Noted."), user("what number?")), "456"),
    ("latest wins", (user("remember number 1"), user("remember number 2"), user("What number?")), "2"),
    ("all", (user("remember number 1"), user("remember number 2"), user("what numbers?")), "1, 2"),
    ("unknown", (user("what number?"),), "I do not know any number."),
    (
        "not from an answer",
        (user("hi"), assistant("remember number 9"), user("what number?")),
        "I do not know any number.",
    ),
    (
        "not from elsewhere",
        (user("port 8080, 3 files"), user("what is the number?")),
        "I do not know any number.",
    ),
    (
        "in a transcript",
        (user("U: remember number 7\nA: Noted: 7.\n--- new message ---\nwhat number?"),),
        "7",
    ),
    ("in a transcript without a divider", (user("U: remember number 7\nA: Noted: 7.\n\nwhat number?"),), "7"),
    ("asked and told anew", (user("what number? no: remember number 8"),), "Noted: 8."),
    ("neither", (user("hello"),), None),
]


@pytest.mark.parametrize(
    ("items", "expected"), [case[1:] for case in RECALLED], ids=[case[0] for case in RECALLED]
)
def test_recall_knows_only_what_users_said_in_the_request(
    items: tuple[Item, ...], expected: str | None
) -> None:
    assert current_turn.recalled_answer(find_turn(ask(*items))) == expected


def test_a_pattern_is_recalled_from_tool_results_too() -> None:
    items = (user("go"), call("1"), result("1", "secret-42"), assistant("done"))
    assert current_turn.latest_number(items, r"secret-\d+") == "secret-42"
    assert current_turn.latest_number(items, r"other-\d+") == "Nothing found."
