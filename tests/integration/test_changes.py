"""Edit, truncate, retry, fork, rm: what they change, and what the next turn makes of it."""

from __future__ import annotations

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.talk import AGENT, OTHER, Talk, declared, rehearsing, replayed, resumed
from tests.integration.terminals import on_terminal


@pytest.fixture
def talk(segue: Program) -> Talk:
    """Three turns have been taken."""
    talk = rehearsing(segue, OTHER)
    for number in (1, 2, 3):
        talk.run(f"remember number {number}")
    return talk


def once(spoke_native: str, spoke_prompt: str, *texts: str) -> None:
    for text in texts:
        assert (spoke_native + spoke_prompt).count(text) == 1, text


def test_an_edit_in_place_keeps_what_follows(talk: Talk) -> None:
    ran = talk("edit", "#3", "remember number 22")
    assert ran.stdout == ""
    assert ran.stderr == "Changed #3. To undo: segue undo t. What the next turn will do: segue why t\n"
    after = talk.run("what numbers?")
    assert (after.mode, after.text) == ("branch", "1, 22, 3")
    assert (after.turn["sent"]["native_messages"], after.turn["sent"]["text_messages"]) == (2, 5)
    once(after.native, after.prompt, "remember number 1", "remember number 22", "Noted: 2.", "Noted: 3.")
    assert "remember number 2\n" not in after.native + after.prompt
    resumed(talk.run("[[say on]]"), "remember number 22")
    row = talk.log()[2]
    assert (row["text"], row["revision"]) == ("remember number 22", 2)
    assert row["edited"] >= row["created"]


def test_an_edit_that_cuts_drops_what_follows(talk: Talk) -> None:
    talk("edit", "#3", "remember number 22", "--cut")
    assert talk.texts() == ["remember number 1", "Noted: 1.", "remember number 22"]
    again = talk.retry()
    assert (again.mode, again.text) == ("branch", "Noted: 22.")
    assert (again.prompt, "number 2\n" in again.native, "3" in again.native) == (
        "remember number 22",
        False,
        False,
    )
    assert talk.run("what numbers?").text == "1, 22"


def test_an_edit_of_an_answer_is_told_anew(talk: Talk) -> None:
    talk("edit", "#4", "Noted: 2, and more.")
    after = talk.run("[[recall Noted: 2.*]]")
    assert (after.mode, after.text) == ("branch", "Noted: 2, and more.")
    once(after.native, after.prompt, "Noted: 2, and more.", "remember number 3")


def test_the_new_text_can_be_piped_in_and_an_id_names_a_message(talk: Talk) -> None:
    message = talk.log()[4]["id"]
    ran = talk.segue("edit", "t", message, stdin=b"remember number 33\n")
    assert ran.code == 0
    assert talk.texts()[4] == "remember number 33\n"


def test_a_truncation_goes_on_from_before(talk: Talk) -> None:
    assert talk("truncate", "#5").stderr.startswith("Dropped 2 messages.")
    after = talk.run("what numbers?")
    assert (after.mode, after.text, after.prompt) == ("branch", "1, 2", "what numbers?")
    assert "number 3" not in after.native


def test_what_is_dropped_wholly_begins_anew(talk: Talk) -> None:
    talk("truncate", "#1")
    after = talk.run("what numbers?")
    assert (after.mode, after.text, after.prompt) == ("fresh", "I do not know any number.", "what numbers?")


def test_a_retry_is_of_the_last_message_and_branches_before_it(talk: Talk) -> None:
    again = talk.retry()
    assert (again.mode, again.text, again.prompt) == ("branch", "Noted: 3.", "remember number 3")
    assert again.native.count("remember number") == 2
    assert len(talk.log()) == 6


def test_a_retry_of_an_earlier_message_drops_what_came_after_it(talk: Talk) -> None:
    refused = talk.segue("retry", "t", "#3")
    assert (refused.code, "2 messages follow #3" in refused.stderr) == (2, True)
    again = talk.retry("#3", "--cut")
    assert (again.mode, again.text) == ("branch", "Noted: 2.")
    assert talk.texts()[2:] == ["remember number 2", "Noted: 2."]
    assert talk.run("what numbers?").text == "1, 2"


def test_a_retry_by_another_agent(talk: Talk) -> None:
    again = talk.retry("--agent", "other")
    replayed(again, "remember number 1", "Noted: 2.")
    assert (again.text, again.turn["agent"]) == ("Noted: 3.", "other")
    last = talk.log()[-2:]
    assert [row["agent"] for row in last] == ["other", "other"]
    back = talk.run("what numbers?", "--agent", "rehearsal")
    assert back.text == "1, 2, 3"
    assert back.turn["mode"] in ("resume", "branch")


def test_a_retry_in_a_fresh_session_replays(talk: Talk) -> None:
    again = talk.retry("--fresh-session")
    replayed(again, "remember number 1", "Noted: 1.", "remember number 2", "Noted: 2.")
    assert again.prompt.count("remember number 3") == 1


def test_a_retry_that_is_blank_begins_anew_for_good(talk: Talk) -> None:
    again = talk.retry("--blank")
    assert (again.mode, again.prompt) == ("fresh", "remember number 3")
    assert talk.run("what numbers?").text == "3"


def test_a_retry_goes_to_whom_it_was_said(talk: Talk) -> None:
    talk.run("hi", "--agent", "other", "--role", "reviewer")
    again = talk.retry("#5", "--cut")
    assert (again.turn["agent"], again.turn["role"]) == ("rehearsal", None)


def test_a_retry_under_another_account_is_behind_its_wall(segue: Program) -> None:
    segue.config('[accounts.a]\nagent = "rehearsal"\n[accounts.b]\nagent = "rehearsal"\n')
    talk = Talk(segue)
    talk.run("remember number 1", "--account", "a")
    talk.run("[[error 429]]", code=75)
    talk("edit", "#3", "what number?")
    again = talk.retry("--account", "b")
    assert (again.mode, again.text) == ("fresh", "I do not know any number.")
    assert talk.log()[2]["account"] == "b"


def test_a_retry_after_an_interruption_knows_what_was_done(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("remember number 1")
    talk.run("[[shell echo made >> made.txt]][[hang]]", "--permission", "full", "--timeout", "2", code=124)
    again = talk.retry("--permission", "full")
    assert (again.mode, again.turn["tools_run"]) == ("resume", 0)
    assert "interrupted after 1 tool call" in again.prompt
    assert (again.native + again.prompt).count("[[hang]]") == 1
    assert (segue.cwd / "made.txt").read_text() == "made\n"


# --- forks -----------------------------------------------------------------------------------------


def test_a_fork_branches_off_and_the_other_goes_on_unchanged(talk: Talk) -> None:
    assert talk("fork").stdout == "t~2\n"
    assert talk("fork").stdout == "t~3\n"
    fork = Talk(talk.segue, "t~2")
    assert fork.texts() == talk.texts()
    first = fork.run("remember number 4")
    assert (first.mode, first.turn["sent"]["native_messages"]) == ("branch", 6)
    assert "which this one was forked from" in first.failed()["pin"]
    resumed(fork.run("what numbers?"), "remember number 4")
    here = talk.run("what numbers?")
    resumed(here, "remember number 3")
    assert here.text == "1, 2, 3"
    assert here.turn["session_id"] != first.turn["session_id"]
    listed = {row["key"]: row for row in msgspec.json.decode(talk.segue("ls", "--json").stdout)}
    assert (listed["t~2"]["forked_from"], listed["t"]["forked_from"]) == ("t", None)
    assert fork("log").stdout.startswith("a fork of t\n")


def test_a_fork_of_the_longest_key_has_a_key_that_can_be_used(segue: Program) -> None:
    talk = Talk(segue, "k" * 200)
    talk.run("remember number 1", "--agent", "rehearsal")
    forks = [talk("fork").stdout.rstrip("\n") for _ in range(2)]
    assert forks == ["k" * 198 + "~2", "k" * 198 + "~3"]
    assert Talk(segue, forks[1]).run("what number?").text == "1"


def test_a_fork_at_a_message_has_what_came_before(talk: Talk) -> None:
    assert talk("fork", "early", "--at", "#4").stdout == "early\n"
    fork = Talk(talk.segue, "early")
    assert len(fork.log()) == 4
    after = fork.run("what numbers?")
    assert (after.mode, after.text) == ("branch", "1, 2")


def test_a_fork_of_an_agent_that_cannot_branch_is_sent_as_text(segue: Program) -> None:
    talk = rehearsing(segue, declared("plain", AGENT))
    talk.run("remember number 1", "--agent", "plain")
    talk("fork", "f")
    replayed(Talk(segue, "f").run("what number?"), "remember number 1")
    resumed(talk.run("what number?"), "remember number 1")


# --- rm --------------------------------------------------------------------------------------------


def test_rm_forgets_and_leaves_the_agents_sessions_alone(talk: Talk) -> None:
    sessions = sorted(talk.sessions.iterdir())
    ran = talk.segue("rm", "t", "t")
    assert (ran.code, ran.stdout, ran.stderr) == (0, "", "Forgot t.\n")
    assert talk.segue("log", "t").code == 2
    assert sorted(talk.sessions.iterdir()) == sessions
    assert talk.run("what numbers?").mode == "fresh"


@pytest.mark.parametrize(("key", "left"), [(b"n\n", 6), (b"\n", 6), (b"y\n", 0)])
def test_rm_asks_on_a_terminal(talk: Talk, key: bytes, left: int) -> None:
    code, output = on_terminal(talk.segue, "rm", "t", keys=((2.0, key),))
    assert "Forget t?" in output
    assert code == (0 if left == 0 else 130)
    assert talk.segue("log", "t", "--json").stdout.count('"id"') == left


def test_rm_of_several_forgets_all_or_none(talk: Talk) -> None:
    Talk(talk.segue, "u").run("hi")
    assert talk.segue("rm", "t", "nobody").code == 2
    assert len(talk.log()) == 6
    assert talk.segue("rm", "t", "u", "--yes").code == 0
    assert talk.segue("ls", "--json").stdout == "[]\n"
