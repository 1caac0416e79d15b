"""Trying again: what was refused is withdrawn, the same words after a failure are its retry, and changes
can be taken back."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.config.home import Home, this_host
from segue.store.leases import Acquiring, LeaseLock, lease_name
from segue.store.store import open_store
from segue.system.processes import this_process
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
    (listed,) = msgspec.json.decode(talk.segue("ls", "--json").stdout)
    assert (listed["state"], listed["status"], listed["messages"]) == ("idle", "ok", 4)
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
    assert "✗ not sent: t is busy" in talk("log").stdout
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


def test_a_turn_that_is_killed_while_it_waits_is_withdrawn(talk: Talk) -> None:
    talk.run("remember number 1")
    with talk.busy():
        process = talk.segue.start("run", "t", "remember number 2")
        assert process.stderr is not None
        while b"waiting for another turn" not in process.stderr.readline():
            pass
        process.kill()
        process.communicate(timeout=60)
    for _ in range(2):  # as soon as it is dead, and once a later turn has noted that
        (listed,) = msgspec.json.decode(talk.segue("ls", "--json").stdout)
        assert (listed["state"], listed["status"]) == ("idle", "ok")
        ran = talk("last", "--wait")
        assert ran.stderr == ""
        (row,) = [row for row in talk.log() if row["text"] == "remember number 2"]
        assert (row["n"], row["state"]) == (None, "withdrawn")
        assert talk.run("what numbers?").text == "1"


def test_a_turn_that_is_cancelled_while_it_waits_is_withdrawn(talk: Talk) -> None:
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


def test_what_an_earlier_run_did_is_neither_repeated_nor_hidden(segue: Program) -> None:
    """A run with a tool, then one of the same message that came to nothing: the first still counts."""
    talk = failing(segue, 2, "[[shell echo shard >> shards]][[error 503]]")
    deploy = "deploy the next shard"
    did = talk.run(deploy, "--permission", "full", code=75)
    assert did.turn["tools_run"] == 1
    nothing = talk.segue("retry", "t", did.turn["message"], "--permission", "read", "--json").turn
    assert (nothing["tools_run"], nothing["failure"]["kind"]) == (0, "model_error")
    other = talk.run("[[recall interrupted, after 1 tool call]]", "--role", "reviewer", "--fork")
    assert other.text == "interrupted, after 1 tool call"
    again = talk.run(deploy, "--role", "none", "--permission", "full")
    assert again.turn["retry_of"] is None
    assert again.turn["message"] != did.turn["message"]


def test_what_others_said_meanwhile_makes_it_a_new_message(talk: Talk) -> None:
    once = talk.run("[[error 429]]", code=75).turn
    talk.run("hi")
    assert talk.run("[[error 429]]", code=75).turn["message"] != once["message"]


def test_a_message_that_was_dropped_meanwhile_is_not_the_one_that_is_said_again(talk: Talk) -> None:
    talk.run("remember number 1")
    once = talk.run("[[error 429]]", code=75).turn
    talk("truncate", "#3")
    twice = talk.run("[[error 429]]", code=75).turn
    assert (twice["message"] != once["message"], twice["retry_of"]) == (True, None)
    assert talk.texts() == ["remember number 1", "Noted: 1.", "[[error 429]]"]


def test_a_message_that_was_edited_meanwhile_is_not_the_one_that_is_said_again(talk: Talk) -> None:
    once = talk.run("deploy [[error 429]]", code=75).turn
    talk("edit", "#1", "deploy both [[error 429]]")
    assert talk.run("deploy both [[error 429]]", code=75).turn["message"] != once["message"]
    assert talk.run("deploy [[error 429]]", code=75).turn["message"] != once["message"]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ((None, b"a\0b [[error 429]]\r\n"), (None, b"a\0b [[error 429]]\r\n"), True),
        (("look", b"a [[error 429]]\n"), ("look", b"a [[error 429]]\n"), True),
        (("look", b"a [[error 429]]\n"), ("look", b"a [[error 429]]"), False),
        (("look", b"a [[error 429]]\n"), ("Look", b"a [[error 429]]\n"), False),
        (("look [[error 429]]", None), ("look [[error 429]] ", None), False),
    ],
    ids=["piped, whatever is in it", "both", "another end", "another argument", "a space"],
)
def test_the_same_words_are_equal_byte_by_byte(
    talk: Talk, first: tuple[str | None, bytes | None], second: tuple[str | None, bytes | None], same: bool
) -> None:
    said = [
        talk.segue("run", "t", *filter(None, (text,)), "--json", stdin=piped).turn
        for text, piped in (first, second)
    ]
    assert (said[0]["message"] == said[1]["message"]) == same
    assert said[1]["retry_of"] == (said[0]["run"] if same else None)


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


@contextmanager
def held(talk: Talk) -> Iterator[None]:
    """Somebody changes the conversation meanwhile: nothing is said, but a turn has to wait."""
    home = Home(talk.segue.home)
    with open_store(None, home.root / "segue.db") as store:
        conversation = store.conversation(talk.key)
        assert conversation is not None
        locks, name = home.locks, lease_name(conversation.id)
        owner = this_process(this_host(None, home))
        taking = Acquiring(store, name, owner, locks, True)
        grip = taking.take()
        assert isinstance(grip, LeaseLock)
        taking.kept()
        yield
        grip.let_go()


def test_of_two_that_repeat_a_failure_at_the_same_time_one_is_its_retry(talk: Talk) -> None:
    """Which of them is decided when it is their turn: both were heard when the first had failed."""
    text = "hi [[error 429]]"
    first = talk.run(text, code=75).turn
    with held(talk):
        both = [talk.segue.start("run", "t", text, "--json") for _ in range(2)]
        for process in both:
            assert process.stderr is not None
            while b"waiting for another turn" not in process.stderr.readline():
                pass
    turns = [msgspec.json.decode(each.communicate(timeout=60)[0].splitlines()[-1]) for each in both]
    assert sorted(turn["retry_of"] or "" for turn in turns) == ["", first["run"]]
    assert len({first["message"], *(turn["message"] for turn in turns)}) == 2
    assert talk.texts() == [text, text]


def test_a_turn_that_was_cancelled_is_retried_by_the_same_words(talk: Talk) -> None:
    turns = []
    for _ in range(2):
        process = talk.segue.start("run", "t", "[[hang]]", "--events")
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        turns.append(msgspec.json.decode(process.communicate(timeout=60)[0].splitlines()[-1]))
        assert process.returncode == 130
    assert (turns[0]["message"], turns[0]["run"]) == (turns[1]["message"], turns[1]["retry_of"])
    assert talk.texts() == ["[[hang]]"]


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


@pytest.mark.parametrize("options", [(), ("--agent", "other"), ("--blank",)], ids=str)
def test_a_fork_is_told_what_an_interrupted_turn_had_done(talk: Talk, options: tuple[str, ...]) -> None:
    talk.run("remember number 1")
    talk.run(DONE, "--permission", "full", "--timeout", "3", code=124)
    fork = Talk(talk.segue, "f")
    talk("fork", "f")
    after = fork.run("what numbers?", *options)
    assert "1 tool call" in after.prompt
    assert "look before repeating" in after.prompt
    if "--agent" in options:
        assert "echo made >> made.txt" in after.prompt
    assert "look before repeating" not in fork.run("and now?").prompt
    assert fork.log()[2]["failure"]["kind"] == "timeout"
    assert fork.log()[2]["cost_usd"] is None, "that was paid once"


def test_a_fork_is_not_told_of_what_was_dealt_with(talk: Talk) -> None:
    talk.run(DONE, "--permission", "full", "--timeout", "3", code=124)
    talk.run("go on")
    talk("fork", "f")
    listed = {each["key"]: each["status"] for each in msgspec.json.decode(talk.segue("ls", "--json").stdout)}
    assert listed == {"t": "ok", "f": None}
    assert "look before repeating" not in Talk(talk.segue, "f").run("what numbers?").prompt


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


def test_the_next_command_names_the_directory_where_the_caller_is_elsewhere(talk: Talk) -> None:
    place = talk.segue.home.parent / "work here"
    place.mkdir()
    failed = talk.run("[[error 429]]", "--cwd", str(place), code=75)
    hint = f"segue retry t {failed.turn['message']} --cwd '{place}'"
    assert failed.turn["next"] == hint
    assert f"Retry with: {hint}\n" in failed.ran.stderr
    again = talk.segue(*shlex.split(hint)[1:], "--json")
    assert (again.code, again.turn["retry_of"]) == (75, failed.turn["run"])
    assert at(talk, place).run("[[error 429]]", code=75).turn["next"] == hint.partition(" --cwd")[0]


def test_the_last_message_of_a_fork_is_run_again_like_any_other(talk: Talk) -> None:
    """Its answer is its own, although the run that gave it is the other conversation's."""
    talk.run("remember number 1")
    talk.run("remember number 2")
    assert talk("fork").stdout == "t~2\n"
    fork = Talk(talk.segue, "t~2")
    assert fork("retry", "#1", code=2).stderr.startswith("segue: 2 messages follow #1")
    assert fork.retry().text == "Noted: 2."
    assert (
        fork.texts() == talk.texts() == ["remember number 1", "Noted: 1.", "remember number 2", "Noted: 2."]
    )


# --- trying again by itself ------------------------------------------------------------------------


def test_retries_until_it_is_answered(segue: Program) -> None:
    talk = failing(segue, 2, "[[error 429 retry-after 1]]")
    spoke = talk.run("remember number 7", "--retries", "3")
    assert spoke.turn["text"] == "Noted: 7."
    assert len(spoke.turn["earlier"]) == 2
    assert spoke.turn["retry_of"] == spoke.turn["earlier"][-1]
    assert "rate limited: retrying in " in spoke.ran.stderr
    assert "(2 of 3)" in spoke.ran.stderr
    assert talk.texts() == ["remember number 7", "Noted: 7."]
    assert said(spoke).count("remember number 7") == 1


def test_retries_come_to_an_end(segue: Program) -> None:
    talk = failing(segue, 9)
    segue.config((segue.home / "config.toml").read_text() + "retries = 1\n")
    spoke = talk.run("hi", code=75)
    assert (len(spoke.turn["earlier"]), spoke.turn["failure"]["kind"]) == (1, "rate_limited")
    assert talk.texts() == ["hi"]


def trying_again(talk: Talk, *args: str) -> subprocess.Popen[bytes]:
    """A turn that has failed and waits for its next try."""
    process = talk.segue.start(*args, "--retries", "1")
    assert process.stderr is not None
    while b"retrying in" not in (line := process.stderr.readline()):
        assert line, "it ended before"
    return process


def test_what_others_say_while_a_turn_waits_for_its_next_try_stays(talk: Talk) -> None:
    """That what followed may go was said of what followed then."""
    talk.run("remember number 1")
    talk.run("remember number 2")
    talk("edit", "#1", "remember number 1 [[error 429 retry-after 20]]")
    process = trying_again(talk, "retry", "t", "#1", "--cut", "--json")
    talk.run("remember number 9")
    stdout, stderr = process.communicate(timeout=60)
    assert b"not retried: 2 messages follow #1" in stderr
    turn = msgspec.json.decode(stdout.splitlines()[-1])
    assert (process.returncode, turn["failure"]["kind"], turn["earlier"]) == (75, "rate_limited", [])
    assert talk.texts()[1:] == ["remember number 9", "Noted: 9."]


def test_a_conversation_that_is_removed_while_its_turn_waits_for_its_next_try(talk: Talk) -> None:
    process = trying_again(talk, "run", "t", "[[error 429 retry-after 20]]")
    talk("rm", "--yes")
    _, stderr = process.communicate(timeout=60)
    assert b"segue: not retried: t was deleted in the meantime\n" in stderr
    assert process.returncode == 75


def test_who_cancels_a_turn_that_waits_for_its_next_try_is_not_told_to_try_again(talk: Talk) -> None:
    process = trying_again(talk, "run", "t", "[[error 429 retry-after 3600]]", "--json")
    process.terminate()
    stdout, stderr = process.communicate(timeout=60)
    turn = msgspec.json.decode(stdout.splitlines()[-1])
    assert (process.returncode, turn["failure"]["kind"]) == (130, "rate_limited")
    assert b"segue: not retried: cancelled\n" in stderr


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
    assert undone.stderr == "Undid the truncation; restored 4 messages. See: segue log t\n"
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
    assert msgspec.json.decode(talk("last", "--json", code=75).stdout)["status"] == "failed"
    talk("truncate", "#3")  # what was dropped is not the last any more
    ran = talk("last")
    assert (ran.stdout, ran.stderr) == ("Noted: 1.\n", "")


def test_the_last_answer_as_an_object_wherever_it_came_from(talk: Talk) -> None:
    talk.run("[[error 429]]", code=75)
    talk("truncate", "#1")
    none = msgspec.json.decode(talk("last", "--json", code=1).stdout)
    assert none == {"schema": 1, "error": {"code": "no_answer", "message": "t has no answer yet"}}
    talk.run("remember number 1")
    exported = talk("export", "--json").stdout
    assert talk.segue("import", "-", "--key", "u", stdin=exported.encode()).code == 0
    assert msgspec.json.decode(Talk(talk.segue, "u")("last", "--json").stdout)["text"] == "Noted: 1."


def test_the_last_answer_of_a_turn_that_runs(talk: Talk) -> None:
    gate = talk.segue.home.parent / "gate"
    wait = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]][[say slow]]"
    running = talk.segue.start("run", "t", wait, "--permission", "full", "--events")
    assert running.stdout is not None
    running.stdout.readline()
    early = talk("last", code=1)
    assert (early.stdout, early.stderr) == (
        "",
        "segue: a turn of t has not ended; use --wait to wait for it\n",
    )
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
    assert f"t belongs to {talk.segue.cwd}, and this is {elsewhere}" in refused
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
        f"segue: t belongs to {talk.segue.cwd}, which was deleted; name another directory with --cwd\n"
    )


def test_the_library_has_the_same(segue: Program) -> None:
    from segue.app.sync import SyncSegue

    with SyncSegue(home=segue.home, env={**segue.env, "SEGUE_DEFAULTS_AGENT": "rehearsal"}) as door:
        options: dict[str, Any] = {"cwd": segue.cwd}
        first = door.run("t", "[[error 429]]", **options)
        second = door.run("t", "[[error 429]]", **options)
        assert first.message != second.message, "who calls from Python says what is a retry"
        assert door.retry("t", second.run, **options).retry_of == second.run
        assert door.truncate("t", "#1") == 2
        assert door.undo("t").kind == "truncate"
        assert len(door.log("t")) == 2
