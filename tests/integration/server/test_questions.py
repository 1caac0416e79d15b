"""What agents ask: answered once by whoever is first, for good, side by side, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import SEGUE, Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.test_runs import finished, show, submit
from tests.integration.talk import OTHER, rehearsing
from tests.integration.terminals import Terminal

ASK = "[[ask Which colour? | red | blue]][[result]]"
SHOWN = "a reason can follow"
SHELL = "[[shell echo x >> effects]][[result]]"


def until(look: Callable[[], Any]) -> Any:
    """What it returns, once that is true."""
    last = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < last
        time.sleep(0.05)
    return found


def asked(daemon: Daemon, run: str, count: int = 1) -> list[dict[str, Any]]:
    """The questions of a run, once there are so many."""

    def look() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = show(daemon, run)["questions"]
        return found if len(found) == count else []

    found: list[dict[str, Any]] = until(look)
    return found


def answer(daemon: Daemon, run: str, question: str, **given: Any) -> int:
    path = f"/api/v1/runs/{run}/tool-result"
    return daemon.ask("POST", path, {"tool_use_id": question, **given}).status


def listed(segue: Program) -> list[dict[str, Any]]:
    return list(msgspec.json.decode(segue("answer", "--json").stdout))


def state_of(daemon: Daemon, key: str) -> str:
    return str(daemon.ask("GET", f"/api/v1/conversations/{key}").json["state"])


# --- lapsed ----------------------------------------------------------------------------------------


@pytest.fixture
def killed(segue: Program) -> Iterator[tuple[Daemon, str, dict[str, Any]]]:
    """A daemon that was killed while a question was open, and its successor; the run; the question."""
    first = start(segue)
    run = submit(first, "k", f"remember number 7 {ASK}", answers=True)["run"]
    (question,) = asked(first, run)
    first.end(signal.SIGKILL)
    finish(first.process)
    second = start(segue)
    yield second, run, question
    finish(second.process)


def test_a_question_survives_the_daemon_and_its_answer_is_the_next_message(
    killed: tuple[Daemon, str, dict[str, Any]],
) -> None:
    daemon, run, question = killed
    behind = submit(daemon, "k", "what number?")["run"]
    ended = finished(daemon, run)
    assert (ended["state"], ended["turn"]["failure"]["kind"]) == ("failed", "killed")
    assert ended["question"] == {**question, "lapsed": True}
    assert state_of(daemon, "k") == "needs_you"
    (shown,) = listed(daemon.segue)
    assert (shown["run"], shown["question"]["lapsed"]) == (run, True)
    assert "questions: 1" in daemon.segue("status").stdout
    assert show(daemon, behind)["state"] == "queued", "the answer comes first"
    path = f"/api/v1/runs/{run}/tool-result"
    given = daemon.ask("POST", path, {"tool_use_id": question["id"], "content": "blue"})
    assert given.status == 200
    next_run = given.json["continued_by"]
    done = finished(daemon, next_run)
    assert (done["state"], done["turn"]["mode"]) == ("done", "resume"), str(
        [each for each in done["turn"]["why"] if each["bars"]]
    )
    assert done["turn"]["session_id"] == ended["turn"]["session_id"]
    log = daemon.ask("GET", "/api/v1/conversations/k/log").json
    assert "Which colour?\nblue" in next(each["text"] for each in log if each["id"] == done["message"])
    assert answer(daemon, run, question["id"], content="red") == 409
    assert finished(daemon, behind)["turn"]["text"] == "7"
    assert state_of(daemon, "k") == "idle"
    assert listed(daemon.segue) == []


def test_a_lapsed_question_is_over_when_something_else_is_said(
    killed: tuple[Daemon, str, dict[str, Any]],
) -> None:
    daemon, run, question = killed
    finished(daemon, run)
    daemon.segue("run", "k", "never mind", "-q")
    assert answer(daemon, run, question["id"], content="blue") == 410
    assert state_of(daemon, "k") == "idle"


def test_a_lapsed_question_can_be_dropped(killed: tuple[Daemon, str, dict[str, Any]]) -> None:
    daemon, run, question = killed
    finished(daemon, run)
    assert answer(daemon, run, question["id"], allow=False) == 200
    assert show(daemon, run)["continued_by"] is None
    assert state_of(daemon, "k") == "idle"
    assert answer(daemon, run, question["id"], content="blue") == 410


def test_a_question_of_a_killed_terminal_is_answered_without_a_daemon(segue: Program) -> None:
    with Terminal(segue, "run", "k", SHELL, "--agent", "rehearsal") as terminal:
        until(lambda: listed(segue))
        os.kill(terminal.process.pid, signal.SIGKILL)
    (shown,) = until(lambda: [each for each in listed(segue) if each["question"]["lapsed"]])
    assert msgspec.json.decode(segue("ls", "--json").stdout)[0]["state"] == "needs_you"
    run = segue("answer", shown["run"], "--allow").stdout.strip()
    assert segue("answer", shown["run"], "--allow").code == 2
    assert segue("queue", "run", "k").code == 0
    assert segue("answer").stdout == ""
    told = msgspec.json.decode(segue("log", "k", "--json").stdout)
    assert run in [each["run"] for each in told]


# --- always ----------------------------------------------------------------------------------------


def test_what_is_always_allowed_is_not_asked_again_and_can_be_taken_back(daemon: Daemon) -> None:
    run = submit(daemon, "k", SHELL + SHELL, answers=True)["run"]
    (question,) = asked(daemon, run)
    assert answer(daemon, run, question["id"], allow=False, always=True) == 422
    assert answer(daemon, run, question["id"], always=True) == 200
    assert finished(daemon, run)["state"] == "done", "the second call is not asked for"
    shown = daemon.ask("GET", "/api/v1/conversations/k").json
    assert shown["allowed_tools"] == [{"agent": "rehearsal", "role": None, "tool": "shell"}]
    again = finished(daemon, submit(daemon, "k", SHELL, answers=True)["run"])
    assert again["turn"]["terms"]["allow_tools"] == ["shell"]
    assert (daemon.segue.cwd / "effects").read_text() == "x\n" * 3
    assert "shell" in daemon.segue("why", "k").stdout
    gone = daemon.ask("DELETE", "/api/v1/conversations/k/allowed-tools/shell")
    assert (gone.status, gone.json["allowed_tools"]) == (200, [])
    assert daemon.ask("DELETE", "/api/v1/conversations/k/allowed-tools/shell").status == 404
    last = submit(daemon, "k", SHELL, answers=True)["run"]
    (question,) = asked(daemon, last)
    assert answer(daemon, last, question["id"], allow=False) == 200
    finished(daemon, last)


def test_always_belongs_to_the_role_that_asked_and_goes_with_a_fork(daemon: Daemon) -> None:
    run = submit(daemon, "k", SHELL, answers=True, role="coder")["run"]
    asked(daemon, run)
    assert daemon.segue("answer", run, "--always").code == 0
    finished(daemon, run)
    other = submit(daemon, "k", SHELL, answers=True, role="reviewer")["run"]
    asked(daemon, other)
    assert daemon.segue("answer", other, "--deny").code == 0
    finished(daemon, other)
    daemon.segue("fork", "k", "l")
    forked = daemon.ask("GET", "/api/v1/conversations/l").json
    assert forked["allowed_tools"] == [{"agent": "rehearsal", "role": "coder", "tool": "shell"}]
    daemon.segue("run", "k", "hi", "--role", "coder", "--allow-tool", "none", "-q")
    assert daemon.ask("GET", "/api/v1/conversations/k").json["allowed_tools"] == []


@pytest.mark.parametrize(
    ("typed", "lines", "again"),
    [(b"y\n", 1, True), (b"a\n", 2, False), (b"n not today\n", 0, True)],
    ids=["yes", "always", "no"],
)
def test_a_permission_is_asked_for_at_the_terminal(
    segue: Program, typed: bytes, lines: int, again: bool
) -> None:
    with Terminal(segue, "run", "k", SHELL, "--agent", "rehearsal") as terminal:
        _type(terminal, SHOWN, typed)
        assert "May it use shell" in terminal.seen
    with Terminal(segue, "run", "k", SHELL) as terminal:
        _type(terminal, SHOWN, b"n\n")
        assert ("May it use shell" in terminal.seen) is again
    effects = segue.cwd / "effects"
    assert (effects.read_text() if effects.exists() else "") == "x\n" * lines


def _type(terminal: Terminal, when: str, typed: bytes) -> None:
    """Type it once the text is shown, and wait for the end."""
    last = time.monotonic() + WAIT_S
    while terminal.read():
        assert time.monotonic() < last, terminal.seen
        if typed and when in terminal.seen:
            os.write(terminal.leader, typed)
            typed = b""
    terminal.process.wait(WAIT_S)


# --- other processes --------------------------------------------------------------------------------


@pytest.mark.parametrize("daemonless", [True, False])
def test_a_question_at_a_terminal_is_answered_from_elsewhere(segue: Program, daemonless: bool) -> None:
    daemon = start(segue)
    try:
        options = ("--no-daemon",) if daemonless else ()
        with Terminal(segue, "run", "k", ASK, "--agent", "rehearsal", *options) as terminal:
            (shown,) = until(lambda: listed(segue))
            assert shown["question"]["lapsed"] is False
            assert answer(daemon, shown["run"], shown["question"]["id"], content="blue") == 200
            assert answer(daemon, shown["run"], shown["question"]["id"], content="red") in (409, 410)
            _type(terminal, "never shown", b"")
            assert "blue" in terminal.seen
        assert finished(daemon, shown["run"])["turn"]["text"] == "blue"
    finally:
        finish(daemon.process)


def test_the_first_of_two_answers_counts(segue: Program) -> None:
    """The terminal answers; what comes later is told that it is too late."""
    with Terminal(segue, "run", "k", ASK, "--agent", "rehearsal") as terminal:
        (shown,) = until(lambda: listed(segue))
        _type(terminal, "> ", b"1\n")
    late = segue("answer", shown["run"], "blue")
    assert (late.code, "no open question" in late.stderr) == (2, True)
    assert segue("last", "k").stdout == "red\n"


LIBRARY = """
import asyncio, sys
from segue import Segue

async def never(event):
    await asyncio.Event().wait()

async def main():
    async with Segue() as segue:
        turn = await segue.run("k", sys.argv[1], agent="rehearsal", answer=never)
        print(turn.text)

asyncio.run(main())
"""


def test_a_question_of_a_program_is_answered_by_the_command_line(segue: Program) -> None:
    import sys

    with subprocess.Popen(
        [sys.executable, "-c", LIBRARY, ASK], cwd=segue.cwd, env=segue.env, stdout=subprocess.PIPE
    ) as program:
        (shown,) = until(lambda: listed(segue))
        assert segue("answer", shown["run"], "green").code == 0
        out, _ = program.communicate(timeout=WAIT_S)
    assert out == b"green\n"


# --- two at once ------------------------------------------------------------------------------------


def test_two_questions_at_once_are_answered_in_any_order(daemon: Daemon) -> None:
    both = "[[together 2]][[shell echo a > a]][[shell echo b > b]][[say over]]"
    run = submit(daemon, "k", both, answers=True)["run"]
    first, second = sorted(asked(daemon, run, 2), key=lambda each: each["input"]["command"])
    unnamed = daemon.segue("answer", run, "--allow")
    assert (unnamed.code, second["id"] in unnamed.stderr) == (2, True)
    assert daemon.segue("answer", run, "--allow", "--question", second["id"]).code == 0
    assert show(daemon, run)["state"] == "needs_you"
    assert [each["id"] for each in asked(daemon, run)] == [first["id"]]
    assert answer(daemon, run, first["id"], allow=False) == 200
    assert finished(daemon, run)["state"] == "done"
    cwd = daemon.segue.cwd
    assert ((cwd / "a").exists(), (cwd / "b").exists()) == (False, True)


@pytest.mark.parametrize("daemonless", [True, False])
def test_the_terminal_asks_one_after_the_other(segue: Program, daemonless: bool) -> None:
    both = "[[together 2]][[shell echo a > a]][[shell echo b > b]][[say over]]"
    daemon = None if daemonless else start(segue)
    try:
        with Terminal(segue, "run", "k", both, "--agent", "rehearsal") as terminal:
            for number in (1, 2):
                until(partial(_has_shown, terminal, number))
                last = terminal.seen.rpartition("May it use shell echo ")[2][0]
                os.write(terminal.leader, b"y\n" if last == "a" else b"n\n")
            _type(terminal, "never shown", b"")
        assert ((segue.cwd / "a").exists(), (segue.cwd / "b").exists()) == (True, False)
    finally:
        if daemon is not None:
            finish(daemon.process)


def _has_shown(terminal: Terminal, count: int) -> bool:
    terminal.read()
    return terminal.seen.count(SHOWN) == count


# --- time limit --------------------------------------------------------------------------------------


def test_after_the_time_limit_the_agent_is_told_that_nobody_answered(segue: Program) -> None:
    segue.config("[defaults]\nquestion_timeout = 1\n")
    daemon = start(segue)
    try:
        run = submit(daemon, "k", ASK, answers=True)["run"]
        (question,) = asked(daemon, run)
        done = finished(daemon, run)
        assert (done["state"], done["questions"]) == ("done", [])
        assert "nobody answered within 1 minute." in done["turn"]["text"]
        assert answer(daemon, run, question["id"], content="blue") == 410
    finally:
        finish(daemon.process)


# --- variables ---------------------------------------------------------------------------------------


def test_a_queued_run_whose_variables_are_missing_waits_for_them(segue: Program) -> None:
    segue.config('[accounts.work]\nagent = "rehearsal"\npass_env = ["WORK_TOKEN"]\n')
    given = {**segue.env, "WORK_TOKEN": "a-value-of-the-shell"}
    queued = subprocess.run(
        [*SEGUE, "run", "k", "hello", "--queue", "--account", "work"],
        cwd=segue.cwd,
        env=given,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    run = queued.stdout.strip()
    refused = segue("queue", "run", "k")
    assert (refused.code, f"the run {run} needs WORK_TOKEN" in refused.stderr) == (2, True)
    daemon = start(segue)
    try:
        waiting = until(lambda: (now := show(daemon, run))["state"] == "needs_you" and now)
        assert (waiting["question"]["kind"], waiting["question"]["variables"]) == (
            "environment",
            ["WORK_TOKEN"],
        )
        assert state_of(daemon, "k") == "needs_you"
        assert "it needs WORK_TOKEN" in segue("answer").stdout
        behind = submit(daemon, "k", "behind")["run"]
        segue.config(
            '[accounts.work]\nagent = "rehearsal"\nenv = { WORK_TOKEN = "a-value-of-the-account" }\n'
        )
        assert daemon.ask("POST", f"/api/v1/runs/{run}/now").status == 200
        done = finished(daemon, run)
        assert (done["state"], done["questions"]) == ("done", [])
        assert finished(daemon, behind)["state"] == "done"
    finally:
        finish(daemon.process)
    assert b"a-value-of-the-shell" not in (segue.home / "segue.db").read_bytes()


def test_the_status_counts_runs_by_their_states(daemon: Daemon) -> None:
    def counted() -> Any:
        return daemon.ask("GET", "/api/v1/status").json["runs"]

    assert counted() == {}
    hanging = submit(daemon, "k", "[[hang]]")["run"]
    submit(daemon, "k", "later")
    submit(daemon, "parked", "hi", not_before=int(time.time() * 1000) + 3_600_000)
    submit(daemon, "asks", ASK, answers=True)
    expected = {"running": 1, "queued": 1, "parked": 1, "needs_you": 1}
    until(lambda: counted() == expected)
    assert "runs: 1 needs you, 1 parked, 1 queued, 1 running" in daemon.segue("status").stdout
    daemon.ask("POST", f"/api/v1/runs/{hanging}/cancel")
    until(lambda: counted() == {"parked": 1, "needs_you": 1})
    beside = daemon.segue.start("run", "beside", "[[hang]]", "--agent", "rehearsal", "--no-daemon")
    until(lambda: counted() == {"running": 1, "parked": 1, "needs_you": 1})
    beside.send_signal(signal.SIGINT)
    beside.communicate(timeout=WAIT_S)


# --- exactly once ------------------------------------------------------------------------------------


def test_a_second_answer_is_a_conflict_as_long_as_the_run_runs(daemon: Daemon) -> None:
    text = "[[ask Which? | a | b]][[slow 3 10]][[say over]]"
    run = submit(daemon, "k", text, answers=True)["run"]
    (question,) = asked(daemon, run)
    assert answer(daemon, run, question["id"], content="a") == 200
    assert answer(daemon, run, question["id"], content="b") == 409
    assert answer(daemon, run, "nothing-like-it", content="b") == 404
    until(lambda: show(daemon, run)["state"] == "running")
    assert answer(daemon, run, question["id"], content="b") == 409
    assert finished(daemon, run)["state"] == "done"
    assert answer(daemon, run, question["id"], content="b") == 410


def test_a_question_of_a_resumed_turn_that_knows_only_its_own_part(segue: Program) -> None:
    talk = rehearsing(segue, '[continuity]\nhistory = "own"\n' + OTHER)
    first = talk.run("remember number 7", "--questions", "on")
    talk.run("remember number 8", "--agent", "other")
    daemon = start(segue)
    try:
        run = submit(daemon, "t", ASK, answers=True)["run"]
        (question,) = asked(daemon, run)
        assert answer(daemon, run, question["id"], answers={"Which colour?": "blue"}) == 200
        done = finished(daemon, run)
        turn = done["turn"]
        assert (done["state"], turn["text"], turn["mode"]) == ("done", "blue", "resume")
        assert (turn["session_id"], turn["sent"]["text_messages"]) == (first.turn["session_id"], 1)
        numbers = finished(daemon, submit(daemon, "t", "what numbers?")["run"])
        assert numbers["turn"]["text"] == "7"
    finally:
        finish(daemon.process)
