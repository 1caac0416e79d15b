"""A conversation as lines: columns, notes, failures, ages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from segue.app.conversations import conversation_of, dialogue_of, message_of
from segue.app.shapes import ConversationShown, Dialogue
from segue.cli import ls
from segue.cli.render import dialogue
from segue.core.model import Owner, Voice
from segue.core.turn import AttemptShown, FailureShown, Mode, Saved, Sent, Turn
from segue.core.usage import Context, Usage
from segue.store.records import Conversation, LogRow, Summary, TurnRow

NOW = 1_800_000_000_000
MINUTE = 60_000
CLAUDE, CODEX = Voice("claude"), Voice("codex", "reviewer")


def told(mode: Mode = "resume", **fields: Any) -> Turn:
    made: dict[str, Any] = {
        "run": "r",
        "conversation": "t",
        "agent": "claude",
        "account": None,
        "model": "m",
        "mode": mode,
        "resumed": mode in ("resume", "branch"),
        "session_id": None,
        "sent": Sent(2, 1, 10),
        "text": "",
        "status": "ok",
        "failure": None,
        "usage": Usage(100, 11_000, 900, 200),
        "cost_usd": 0.0234,
        "cost_estimated": False,
        "context": Context(),
        "model_turns": 1,
        "tools_run": 0,
        "attempts": (AttemptShown(mode, None, "ok", Usage(), None),),
        "duration_ms": 1,
    }
    return Turn(**made | fields)


def turn_row(turn: Turn | None, **fields: Any) -> TurnRow:
    made: dict[str, Any] = {"id": "r", "conversation": "c", "message": "m", "voice": CLAUDE}
    made |= {"owner": Owner(host="h", pid=1), "started_ms": NOW, "told": turn, "state": "done"}
    return TurnRow(**made | fields)


def row(n: int, text: str, turn: Turn | TurnRow | None = None, **fields: Any) -> LogRow:
    made: dict[str, Any] = {
        "n": n,
        "id": f"id{n}",
        "sender": "assistant" if n % 2 == 0 else "user",
        "voice": CLAUDE,
        "account": "",
        "blank": False,
        "text": text,
        "revision": 1,
        "created_ms": NOW - 5 * MINUTE,
        "turn": turn_row(turn) if isinstance(turn, Turn) else turn,
    }
    return LogRow(**made | fields)


def shown(*rows: LogRow, width: int = 100, full: bool = False) -> list[str]:
    return list(dialogue.dialogue_lines(of(rows), width, full=full, now_ms=NOW))


def of(rows: Sequence[LogRow], turns: Iterable[TurnRow] = ()) -> Dialogue:
    return dialogue_of("t", rows, turns)


def test_one_line_per_message_with_a_straight_right_edge() -> None:
    first, second = shown(row(1, "add a test"), row(2, "I added\nit.", told("fresh")))
    assert first == "#1  you             add a test".ljust(91) + "5 min ago"
    assert second == "#2  claude  fresh   I added it.".ljust(76) + " 1.2k  $0.023  5 min ago"


def test_who_is_spoken_to_is_said_when_it_changes() -> None:
    lines = shown(
        row(1, "a"),
        row(2, "b", told()),
        row(3, "c", voice=CODEX),
        row(4, "d", told(), voice=CODEX),
        row(5, "e"),
    )
    assert [line.split("  ")[1].strip() for line in lines] == [
        "you",
        "claude",
        "you → codex (reviewer)",
        "codex (reviewer)",
        "you → claude",
    ]


@pytest.mark.parametrize(
    ("turn", "note"),
    [
        (told("resume"), ""),
        (told("resume", sent=Sent(2, 3, 10)), "+2 to catch up"),
        (told("branch", sent=Sent(2, 1, 10)), "↳ from #2"),
        (told("branch", sent=Sent(0, 3, 10)), ""),
        (
            told("replay", attempts=(AttemptShown("resume", None, "x", Usage(), None),) * 2),
            "after resume",
        ),
    ],
)
def test_how_an_answer_came_about(turn: Turn, note: str) -> None:
    lines = shown(row(1, "a"), row(2, "b", told("fresh")), row(3, "c"), row(4, "d", turn))
    assert lines[-1].partition("  d ")[2].rpartition("1.2k")[0].strip() == note


def test_a_branch_beside_a_wall_names_no_number() -> None:
    rows = [row(1, "a", account="work"), row(2, "b", told("fresh")), row(3, "c"), row(4, "d", told("branch"))]
    assert "↳" not in shown(*rows)[-1]


def test_edited_blank_and_running() -> None:
    rows = [
        row(1, "a", edited_ms=NOW),
        row(2, "b", told()),
        row(3, "c", blank=True),
        msgspec.structs.replace(row(5, "d"), turn=turn_row(None, state="running")),
    ]
    lines = shown(*rows)
    assert "(edited)" in lines[0]
    assert "(no history)" in lines[2]
    assert "running" in lines[3]


@pytest.mark.parametrize(
    ("kind", "tools", "says"),
    [
        ("rate_limited", 0, "✗ claude is rate-limited: the CLI's own words"),
        ("cancelled", 0, "✗ cancelled"),
        ("cancelled", 2, "✗ cancelled, after 2 tool calls"),
        ("crashed", 1, "✗ the CLI's own words, after 1 tool call"),
        ("crashed", None, "✗ the CLI's own words; what it did is not known"),
    ],
)
def test_why_a_message_has_no_answer(kind: Any, tools: int | None, says: str) -> None:
    failure = FailureShown(kind, None, "the CLI's own words", False)
    lines = shown(row(1, "a", told(failure=failure, tools_run=tools, cost_usd=None)))
    assert lines[1].strip() == says
    assert "$" not in lines[0]


def test_what_a_failed_turn_cost_is_shown() -> None:
    failure = FailureShown("crashed", None, "x", False)
    assert "$0.023" in shown(row(1, "a", told(failure=failure)))[0]


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40])
@pytest.mark.parametrize("text", ["x" * 400, "日本語" * 90, "e\u0301" * 300, "two\nlines\tand \x1b[31mred"])
def test_no_line_is_wider_than_the_terminal(width: int, text: str) -> None:
    from segue.cli.render.table import columns

    rows = [row(n, text, told("branch") if n % 2 == 0 else None) for n in (1, 2, 3, 4)]
    lines = shown(*rows, width=width)
    assert max(map(columns, lines)) <= width
    assert all(line.isprintable() for line in lines)


def test_a_narrow_terminal_goes_without_age_and_tokens_first() -> None:
    rows = [row(1, "a"), row(2, "b" * 80, told("fresh"))]
    assert "min ago" in shown(*rows, width=80)[1]
    narrow = shown(*rows, width=60)[1]
    assert "min ago" not in narrow
    assert "$0.023" in narrow


def test_full_shows_the_whole_text_harmless() -> None:
    lines = shown(row(1, "one\n\n\x1b[31m  two"), full=True)
    assert lines[1:] == ["    one", "", "      two", ""]


def test_the_total_is_the_sum_of_the_rows_and_what_was_dropped_stands_apart() -> None:
    turns = [
        turn_row(told(saved=Saved(10, 0.05, "replay"))),
        turn_row(told(), id="2"),
        turn_row(None, id="3"),
    ]
    rows = [row(at, "x", turn=each) for at, each in enumerate(turns, 2)]
    assert list(dialogue.total_line(of(rows, turns), 60)) == [f"{'total 2.4k · $0.047 · saved $0.050':>60}"]
    assert list(dialogue.total_line(of(rows[:1], turns), 60)) == [
        f"{'total 1.2k · $0.023 · saved $0.050':>60}",
        f"{'dropped: 1 turn · 1.2k · $0.023':>60}",
    ]
    nothing = turn_row(told(cost_usd=None, usage=Usage()))
    assert list(dialogue.total_line(of([row(2, "x", turn=nothing)], [nothing]), 60)) == []
    estimated = turn_row(told(cost_estimated=True))
    assert list(dialogue.total_line(of([], [estimated]), 60)) == [f"{'dropped: 1 turn · 1.2k · ~$0.023':>60}"]


def test_what_a_failed_turn_took_stands_in_its_row() -> None:
    failed = told(status="failed", cost_usd=None, failure=FailureShown("network", None, "gone", True))
    assert shown(row(1, "x", failed))[0].split()[-5:] == ["1.2k", "–", "5", "min", "ago"]


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "just now"),
        (59_000, "just now"),
        (60_000, "1 min ago"),
        (3_599_000, "59 min ago"),
        (7_200_000, "2 h ago"),
        (47 * 3_600_000, "47 h ago"),
        (72 * 3_600_000, "3 days ago"),
    ],
)
def test_age(ms: int, words: str) -> None:
    assert dialogue.age(NOW - ms, NOW) == words


def test_an_object_can_be_encoded() -> None:
    failure = FailureShown("auth", None, "x", False)
    for each in (row(1, "a"), row(2, "b", told()), row(3, "c", told(failure=failure))):
        assert msgspec.json.decode(msgspec.json.encode(message_of(each)))["n"] == each.n


# --- the list --------------------------------------------------------------------------------------


def summary(key: str, title: str = "a title", **fields: Any) -> ConversationShown:
    conversation = Conversation(id="c", key=key, created_ms=NOW)
    made: dict[str, Any] = {"messages": 6, "agents": ("claude",), "last_used_ms": NOW - 5 * MINUTE}
    return conversation_of(Summary(conversation=conversation, title=title, **made | fields))


def test_the_list_is_in_columns() -> None:
    lines = list(ls.lines([summary("fix-auth", cost_usd=1.2), summary("b", state="failed")], 100, NOW))
    assert lines == [
        "conversation  agents  messages   cost  last used     title",
        "fix-auth      claude         6  $1.20  5 min ago     a title",
        "b             claude         6      –  5 min ago  ✗  a title",
    ]


def test_a_long_key_is_whole_and_does_not_push_the_others_aside() -> None:
    lines = list(ls.lines([summary("k" * 200), summary("b")], 100, NOW))
    assert "k" * 200 in lines[1]
    assert len(lines[2]) <= 100


@pytest.mark.parametrize("width", [100, 60, 44])
def test_the_list_fits(width: int) -> None:
    from segue.cli.render.table import columns

    lines = list(ls.lines([summary("some-key", "日本語" * 40, cost_usd=0.0001)], width, NOW))
    assert max(map(columns, lines)) <= width
