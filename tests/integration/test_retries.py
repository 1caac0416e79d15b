"""Trying again: what was refused is withdrawn, the same words after a failure are its retry, and changes
can be taken back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.talk import AGENT, OTHER, Spoke, Talk, declared, rehearsing, resumed


@pytest.fixture
def talk(segue: Program) -> Talk:
    return rehearsing(segue, OTHER)


def said(spoke: Spoke) -> str:
    """All that the agent has been told, by its session and by this prompt."""
    return spoke.native + spoke.prompt


def failing(segue: Program, times: int, how: str = "[[error 429]]") -> Talk:
    """The rehearsal agent, whose model fails so often before it answers."""
    script, count = segue.home.parent / "agent.sh", segue.home.parent / "count"
    agent = " ".join(f'"{part}"' for part in AGENT)
    script.write_text(
        f'case "$*" in *--version*|*--help*) exec {agent} "$@";; esac\n'
        f"echo x >> {count}\n"
        f'if [ $(wc -l < {count}) -le {times} ]; then sed -u \'s/"text":"[^"]*/&{how}/\' | {agent} "$@"; '
        f'else exec {agent} "$@"; fi\n'
    )
    return rehearsing(segue, f'[agents.rehearsal]\ncommand = ["sh", "{script}"]\n')


# --- what never began ------------------------------------------------------------------------------


def test_a_message_that_was_refused_as_busy_is_told_to_nobody(talk: Talk) -> None:
    talk.run("remember number 1")
    with talk.busy():
        late = talk.run("remember number 2", "--wait", "0.1", code=75)
    assert (late.turn["state"], late.turn["status"]) == ("withdrawn", "failed")
    after = talk.run("what numbers?")
    assert after.text == "1"
    assert "number 2" not in said(after)
    fresh = talk.run("what numbers?", "--fresh-session")
    assert "number 2" not in said(fresh)
    row = next(row for row in talk.log() if row["text"] == "remember number 2")
    assert (row["n"], row["state"], row["status"], row["id"]) == (
        None,
        "withdrawn",
        "failed",
        late.turn["message"],
    )
    line = next(line for line in talk("log").stdout.splitlines() if "remember number 2" in line)
    assert line.startswith("– ")
    assert "✗ refused: t is busy" in talk("log").stdout
    assert "number 2" not in talk("export").stdout
    assert "number 2" not in talk("export", "--json").stdout


def test_only_its_own_retry_runs_what_was_refused(talk: Talk) -> None:
    with talk.busy():
        late = talk.run("remember number 2", "--wait", "0", code=75)
    talk.run("remember number 3")
    again = talk.retry(late.turn["message"])
    assert (again.text, again.turn["retry_of"]) == ("Noted: 2.", late.turn["run"])
    assert [row["text"] for row in talk.log()[-2:]] == ["remember number 2", "Noted: 2."]
    assert talk.run("what numbers?").text == "3, 2"


def test_a_turn_that_is_cancelled_while_it_waits_is_withdrawn(talk: Talk) -> None:
    import signal

    talk.run("remember number 1")
    with talk.busy():
        process = talk.segue.start("run", "t", "remember number 2", "--json")
        assert process.stderr is not None
        while b"waiting for another turn" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=30)
    turn = msgspec.json.decode(stdout.splitlines()[-1])
    assert (process.returncode, turn["state"], turn["failure"]["kind"]) == (130, "withdrawn", "cancelled")
    assert talk.run("what numbers?").text == "1"


# --- the same words again --------------------------------------------------------------------------


def test_three_runs_through_a_limit_leave_one_message(talk: Talk) -> None:
    talk.run("remember number 1")
    runs = [talk.run("remember number 2 [[error 429]]", code=75).turn for _ in range(3)]
    assert len({turn["message"] for turn in runs}) == 1
    assert [turn["retry_of"] for turn in runs] == [None, runs[0]["run"], runs[1]["run"]]
    assert talk.texts() == ["remember number 1", "Noted: 1.", "remember number 2 [[error 429]]"]
    after = talk.run("what numbers?")
    assert after.text == "1, 2"
    assert said(after).count("remember number 2") == 1


def test_the_options_of_the_second_call_hold(talk: Talk) -> None:
    talk.run("what number? [[error 429]]", code=75)
    again = talk.run("what number? [[error 429]]", "--agent", "other", code=1)
    assert (again.turn["agent"], len(talk.log())) == ("other", 1)
    assert talk.log()[0]["agent"] == "other"


@pytest.mark.parametrize(
    ("first", "code", "options"),
    [
        ("hi", 0, ()),
        ("[[error 401]]", 1, ()),
        ("[[shell echo x >> made]][[error 429]]", 75, ("--permission", "full")),
        ("[[error 429]]", 75, ("--new",)),
    ],
    ids=["it was answered", "it will not pass", "a tool ran", "it is said to be new"],
)
def test_other_repetitions_are_new_messages(
    talk: Talk, first: str, code: int, options: tuple[str, ...]
) -> None:
    once = talk.run(first, *options, code=code).turn
    twice = talk.run(first, *options, code=code).turn
    assert once["message"] != twice["message"]
    assert twice["retry_of"] is None
    assert talk.texts().count(first) == 2


def test_what_others_said_meanwhile_makes_it_a_new_message(talk: Talk) -> None:
    once = talk.run("[[error 429]]", code=75).turn
    talk.run("hi")
    assert talk.run("[[error 429]]", code=75).turn["message"] != once["message"]


def test_an_effect_that_is_not_known_is_never_repeated_as_a_retry(segue: Program) -> None:
    talk = rehearsing(segue, declared("plain", AGENT))
    once = talk.run("deploy the next shard [[error 429]]", "--agent", "plain", code=1)
    again = talk.run("deploy the next shard [[error 429]]", code=1)
    assert once.turn["message"] != again.turn["message"]


def test_two_that_say_the_same_at_the_same_time_are_two_messages(talk: Talk) -> None:
    with talk.busy():
        first = talk.segue.start("run", "t", "hi [[error 429]]", "--json")
        second = talk.segue.start("run", "t", "hi [[error 429]]", "--json")
        for process in (first, second):
            assert process.stderr is not None
            while b"waiting for another turn" not in process.stderr.readline():
                pass
    turns = [
        msgspec.json.decode(each.communicate(timeout=60)[0].splitlines()[-1]) for each in (first, second)
    ]
    assert len({turn["message"] for turn in turns}) == 2


def test_a_message_that_failed_carries_its_mark(talk: Talk) -> None:
    talk.run("remember number 1")
    talk.run("remember number 2 [[error 429]]", code=75)
    after = talk.run("what numbers?")
    assert (
        "--- not answered: the usage limit was reached; its sender was told that it failed ---"
        in after.prompt
    )
    assert "Do what it asks only if the last message refers to it." in after.prompt


# --- what an interrupted turn had done -------------------------------------------------------------


DONE = "[[shell echo made >> made.txt]][[hang]]"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--agent", "other"), "interrupted, after 1 tool call: a limit was reached; look before repeating"),
        (
            ("--role", "reviewer"),
            "interrupted, after 1 tool call: a limit was reached; look before repeating",
        ),
        (("--fresh-session",), "interrupted, after 1 tool call: a limit was reached; look before repeating"),
        (("--blank",), "The turn before this one (rehearsal) was interrupted, and it had made 1 tool call"),
        ((), "Your last turn was interrupted after 1 tool call; look before repeating."),
    ],
    ids=["another agent", "another role", "a fresh session", "from nothing", "itself"],
)
def test_whoever_goes_on_is_told_what_an_interrupted_turn_had_done(
    talk: Talk, options: tuple[str, ...], says: str
) -> None:
    talk.run("remember number 1")
    talk.run(DONE, "--permission", "full", "--timeout", "3", code=124)
    talk.run("[[error 429]]", "--new", code=75)  # what did nothing does not make it forgotten
    after = talk.run("what numbers?", *options)
    assert says in after.prompt or (not options and "before this one (rehearsal) was interr" in after.prompt)
    if "--blank" not in options and options:
        assert "echo made >> made.txt" in after.prompt
    assert "look before repeating" not in talk.run("and now?").prompt
    assert (talk.segue.cwd / "made.txt").read_text() == "made\n"


def test_a_retry_by_another_agent_is_told_too(talk: Talk) -> None:
    talk.run(DONE, "--permission", "full", "--timeout", "3", code=124)
    talk("edit", "#1", "what number?")
    again = talk.retry("--agent", "other")
    assert "The turn before this one (rehearsal) was interrupted, and it had made 1 tool call" in again.prompt


# --- retry -----------------------------------------------------------------------------------------


def test_a_retry_takes_a_message_a_number_or_a_run(talk: Talk) -> None:
    failed = talk.run("[[error 429]]", code=75)
    hint = f"segue retry t {failed.turn['message']}"
    assert (failed.turn["next"], hint in failed.ran.stderr) == (hint, True)
    quiet = talk.segue("run", "t", "[[error 429]]", "-q")
    assert hint in quiet.stderr
    for name in (failed.turn["message"], "#1", failed.turn["run"]):
        assert talk.retry(name, code=75).turn["message"] == failed.turn["message"]
    assert len(talk.log()) == 1


def test_what_others_said_after_a_message_goes_only_if_that_is_said(talk: Talk) -> None:
    talk.run("remember number 1")
    talk.run("remember number 2")
    refused = talk("retry", "#1", code=2)
    assert refused.stderr == (
        "segue: 2 messages follow #1, and would be dropped: add --cut, or retry it in a fork (segue fork)\n"
    )
    assert len(talk.log()) == 4
    assert talk.retry("#1", "--cut").text == "Noted: 1."
    assert talk.texts() == ["remember number 1", "Noted: 1."]


# --- trying again by itself ------------------------------------------------------------------------


def test_retries_until_it_is_answered(segue: Program) -> None:
    talk = failing(segue, 2, "[[error 429 retry-after 1]]")
    spoke = talk.run("remember number 7", "--retries", "3")
    assert spoke.turn["text"] == "Noted: 7."
    assert len(spoke.turn["earlier"]) == 2
    assert spoke.turn["retry_of"] == spoke.turn["earlier"][-1]
    assert "rate limited: trying again in " in spoke.ran.stderr
    assert "(2 of 3)" in spoke.ran.stderr
    assert talk.texts() == ["remember number 7", "Noted: 7."]
    assert said(spoke).count("remember number 7") == 1


def test_retries_come_to_an_end(segue: Program) -> None:
    talk = failing(segue, 9)
    segue.config((segue.home / "config.toml").read_text() + "retries = 1\n")
    spoke = talk.run("hi", code=75)
    assert (len(spoke.turn["earlier"]), spoke.turn["failure"]["kind"]) == (1, "rate_limited")
    assert talk.texts() == ["hi"]


def test_what_will_not_pass_is_not_tried_again(segue: Program) -> None:
    talk = failing(segue, 9, "[[error 401]]")
    spoke = talk.run("hi", "--retries", "3", code=1)
    assert spoke.turn["earlier"] == []


# --- undo ------------------------------------------------------------------------------------------


@pytest.fixture
def three(talk: Talk) -> Talk:
    for number in (1, 2, 3):
        talk.run(f"remember number {number}")
    return talk


def test_a_truncation_can_be_taken_back(three: Talk) -> None:
    before = three.texts()
    cut = three("truncate", "#3")
    assert cut.stderr.startswith("Dropped 4 messages. To undo: segue undo t.")
    undone = three("undo")
    assert undone.stderr == "Undid the truncation; 4 messages are back. See: segue log t\n"
    assert three.texts() == before
    resumed(three.run("what numbers?"), "remember number 3")


def test_an_edit_can_be_taken_back_with_what_it_cut(three: Talk) -> None:
    before = three.texts()
    three("edit", "#3", "remember number 22", "--cut")
    three("undo")
    assert three.texts() == before
    assert [row["revision"] for row in three.log()] == [1] * 6
    after = three.run("what numbers?")
    resumed(after, "remember number 3")
    assert after.text == "1, 2, 3"


def test_changes_are_taken_back_one_after_another(three: Talk) -> None:
    before = three.texts()
    three("edit", "#1", "remember number 11")
    three("truncate", "#5")
    three("undo")
    three("undo")
    assert three.texts() == before
    assert "no change to undo" in three("undo", code=2).stderr
    three("edit", "#1", "remember number 12")
    assert three.run("what numbers?").text == "12, 2, 3"


def test_a_retry_can_be_taken_back(three: Talk) -> None:
    before = three.texts()
    three.retry("#3", "--cut", "--agent", "other")
    assert len(three.log()) == 4
    three("undo")
    assert three.texts() == before
    assert {row["agent"] for row in three.log()} == {"rehearsal"}
    assert three.run("what numbers?", "--agent", "rehearsal").text == "1, 2, 3"


def test_nothing_is_taken_back_once_something_was_said(three: Talk) -> None:
    three("truncate", "#5")
    three.run("hi")
    refused = three("undo", code=2)
    assert "something was said since" in refused.stderr
    assert "segue fork" in refused.stderr
    assert refused.stderr.count("\n") == 1


# --- last ------------------------------------------------------------------------------------------


def test_the_last_answer(talk: Talk) -> None:
    talk.run("remember number 1")
    ran = talk("last")
    assert (ran.stdout, ran.stderr) == ("Noted: 1.\n", "")
    assert msgspec.json.decode(talk("last", "--json").stdout)["text"] == "Noted: 1."
    talk.run("[[error 429]]", code=75)
    ran = talk("last", code=75)
    assert ran.stdout == "Noted: 1.\n"
    assert ran.stderr.startswith("segue: rehearsal is rate-limited")


def test_the_last_answer_of_a_turn_that_runs(talk: Talk) -> None:
    gate = talk.segue.home.parent / "gate"
    wait = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]][[say slow]]"
    running = talk.segue.start("run", "t", wait, "--permission", "full", "--events")
    assert running.stdout is not None
    running.stdout.readline()
    early = talk("last", code=1)
    assert (early.stdout, early.stderr) == ("", "segue: a turn of t has not ended; --wait waits for it\n")
    waiting = talk.segue.start("last", "t", "--wait")
    gate.touch()
    assert waiting.communicate(timeout=60)[0] == b"slow\n"
    running.communicate(timeout=60)


# --- the directory ---------------------------------------------------------------------------------


def at(talk: Talk, place: Path) -> Talk:
    return Talk(Program(talk.segue.home, place, talk.segue.env))


def test_from_inside_its_directory_a_turn_works_in_that_directory(talk: Talk) -> None:
    talk.run("remember number 1")
    inner = talk.segue.cwd / "src" / "deep"
    inner.mkdir(parents=True)
    link = talk.segue.home.parent / "link"
    link.symlink_to(inner)
    for place in (inner, link):
        spoke = at(talk, place).run("[[shell pwd]][[result]]", "--permission", "full")
        assert spoke.mode == "resume"
        assert spoke.text.strip() == str(talk.segue.cwd)


def test_from_elsewhere_it_must_be_said(talk: Talk) -> None:
    talk.run("remember number 1")
    elsewhere = talk.segue.home.parent / "elsewhere"
    elsewhere.mkdir()
    refused = at(talk, elsewhere)("run", "hi", code=2).stderr
    assert f"t lives in {talk.segue.cwd}, and this is {elsewhere}" in refused
    assert "--cwd" in refused
    assert 'directory = "remembered"' in refused
    more = {"SEGUE_DEFAULTS_DIRECTORY": "remembered"}
    ran = at(talk, elsewhere).segue("run", "t", "what number?", "--json", more=more)
    assert (ran.turn["mode"], ran.turn["text"]) == ("resume", "1")


def test_a_directory_that_was_deleted_is_named_as_deleted(talk: Talk) -> None:
    talk.run("remember number 1")
    shutil.rmtree(talk.segue.cwd)
    refused = at(talk, talk.segue.home.parent)("run", "hi", code=2).stderr
    assert refused == (
        f"segue: t lives in {talk.segue.cwd}, which was deleted; name another directory with --cwd\n"
    )


def test_the_library_has_the_same(segue: Program) -> None:
    from segue import SyncSegue

    with SyncSegue(home=segue.home, env={**segue.env, "SEGUE_DEFAULTS_AGENT": "rehearsal"}) as door:
        options: dict[str, Any] = {"cwd": segue.cwd}
        first = door.run("t", "[[error 429]]", **options)
        second = door.run("t", "[[error 429]]", **options)
        assert first.message != second.message, "who calls from Python says what is a retry"
        assert door.retry("t", second.run, **options).retry_of == second.run
        assert door.truncate("t", "#1") == 2
        assert door.undo("t").kind == "truncate"
        assert len(door.history("t")) == 2
