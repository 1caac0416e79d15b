"""Parked at a limit: one run that waits for the limit's end and continues, whoever waits for it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from segue import Misuse, Segue
from segue.app.workspace import open_workspace
from segue.store.store import Store
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Stream, said, settled, streams
from tests.integration.server.test_runs import finished, show, submit
from tests.integration.talk import AGENT, rehearsing

__all__ = ["streams"]

LIMIT = "[[error 429 retry-after 600]]"
TOOL = "[[shell echo x >> made]]"


class Limited:
    """The rehearsal agent, at a limit as long as ``limit`` exists. ``calls``: when it was started."""

    def __init__(self, segue: Program, config: str = "", how: str = LIMIT) -> None:
        self.segue, around = segue, segue.home.parent
        self.limit, self._calls, script = around / "limit", around / "calls", around / "agent.sh"
        agent = " ".join(f'"{part}"' for part in AGENT)
        script.write_text(
            f'case "$*" in *--version*|*--help*) exec {agent} "$@";; esac\n'
            f"echo x >> {self._calls}\n"
            f'if [ -e {self.limit} ]; then sed -u \'s#"text":"[^"]*#&{how}#\' | {agent} "$@"; '
            f'else exec {agent} "$@"; fi\n'
        )
        self.talk = rehearsing(segue, f'[agents.rehearsal]\ncommand = ["sh", "{script}"]\n{config}')
        self.limit.touch()

    @property
    def calls(self) -> int:
        return len(self._calls.read_bytes().split()) if self._calls.exists() else 0

    def queue(self) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = msgspec.json.decode(self.segue("queue", "--json").stdout)
        return shown

    def over(self, *, ended: bool = True) -> None:
        """The time until which runs are parked has come. ``ended``: the limit is over, too."""
        if ended:
            self.limit.unlink(missing_ok=True)
        with database(self.segue.home / "segue.db", timeout=WAIT_S) as file:
            file.execute("UPDATE turns SET not_before_ms = started_ms WHERE not_before_ms IS NOT NULL")

    def parked(self) -> dict[str, Any]:
        """The one run that waits, once it is parked."""
        until(lambda: [each["state"] for each in self.queue()] == ["parked"])
        return self.queue()[0]


def until(ready: Callable[[], object]) -> None:
    """Wait until it is so."""
    end = time.monotonic() + WAIT_S
    while not ready():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@pytest.fixture
def limited(segue: Program) -> Limited:
    return Limited(segue)


@pytest.fixture
def served(limited: Limited) -> Iterator[tuple[Limited, Daemon]]:
    daemon = start(limited.segue)
    yield limited, daemon
    finish(daemon.process)


def told(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, Any], str]:
    out, errors = process.communicate(timeout=WAIT_S)
    return process.returncode, msgspec.json.decode(out.splitlines()[-1]), errors.decode()


def test_a_foreground_run_waits_for_the_end_of_the_limit(limited: Limited) -> None:
    process = limited.segue.start("run", "t", "remember number 7", "--park", "--json")
    parked = limited.parked()
    (row,) = limited.talk.log()
    assert (row["n"], row["state"], row["run"]) == (None, "parked", parked["run"])
    assert "parked" in limited.talk("log").stdout
    limited.over()
    code, turn, errors = told(process)
    assert (code, turn["text"], turn["run"]) == (0, "Noted: 7.", parked["run"])
    assert (turn["retry_of"], turn["earlier"]) == (None, [])
    assert [each["outcome"] for each in turn["attempts"]] == ["rate_limited", "ok"]
    assert "segue: parked until " in errors
    assert limited.talk.texts() == ["remember number 7", "Noted: 7."]
    assert limited.calls == 2


def test_a_limit_that_ends_too_late_fails(limited: Limited) -> None:
    late = limited.talk.run("hi", "--park", "60", code=75)
    assert (late.turn["state"], late.turn["failure"]["kind"]) == ("failed", "rate_limited")
    assert limited.queue() == []


@pytest.mark.parametrize(
    ("text", "state", "numbers"), [("hi", "withdrawn", [None]), (TOOL, "cancelled", [1])]
)
@pytest.mark.parametrize("with_daemon", [False, True])
def test_ctrl_c_cancels_a_parked_run(
    limited: Limited, text: str, state: str, numbers: list[int | None], with_daemon: bool
) -> None:
    daemon = start(limited.segue) if with_daemon else None
    try:
        options = ("--permission", "full", "--park", "1h", "--json")
        process = limited.segue.start("run", "t", f"{text}{LIMIT}", *options)
        limited.parked()
        process.send_signal(signal.SIGINT)
        code, turn, _ = told(process)
    finally:
        if daemon is not None:
            finish(daemon.process)
    assert (code, turn["state"], turn["failure"]["kind"]) == (130, state, "cancelled")
    assert limited.queue() == []
    assert [each["n"] for each in limited.talk.log()] == numbers


def test_after_its_tools_ran_a_parked_run_goes_on_in_its_session(limited: Limited) -> None:
    limited.limit.unlink()
    options = ("--permission", "full", "--park", "--json")
    process = limited.segue.start("run", "t", f"{TOOL}{LIMIT}", *options)
    limited.parked()
    assert [(each["n"], each["state"]) for each in limited.talk.log()] == [(1, "parked")]
    limited.over()
    code, turn, _ = told(process)
    assert (code, turn["state"], turn["mode"], turn["tools_run"]) == (0, "done", "resume", 1)
    assert (limited.segue.cwd / "made").read_text() == "x\n"
    session = (limited.talk.sessions / f"{turn['session_id']}.jsonl").read_text()
    assert session.count(TOOL) == 1
    assert "Your last turn was interrupted after 1 tool call" in session
    assert limited.talk.texts() == [f"{TOOL}{LIMIT}", turn["text"]]


def test_what_was_said_meanwhile_keeps_a_run_from_going_on(limited: Limited) -> None:
    limited.limit.unlink()
    process = limited.segue.start("run", "t", f"{TOOL}{LIMIT}", "--permission", "full", "--park", "--json")
    limited.parked()
    limited.talk.run("remember number 3")
    limited.over()
    code, turn, _ = told(process)
    assert (code, turn["state"], turn["tools_run"]) == (75, "failed", 1)
    assert "the conversation went on while #1 was parked" in turn["failure"]["message"]


def asks(limited: Limited, run: str) -> bool:
    """Whether the run needs the user."""
    found = msgspec.json.decode(limited.segue("answer", "--json").stdout)
    (asked,) = [each for each in found if each["run"] == run]
    return (asked["state"], [each["kind"] for each in asked["questions"]]) == ("needs_you", ["went_on"])


@pytest.mark.parametrize(
    ("answer", "state", "texts"),
    [
        ("go on", "done", ["remember number 3", "Noted: 3.", "remember number 7", "Noted: 7."]),
        ("drop it", "withdrawn", ["remember number 3", "Noted: 3."]),
    ],
)
def test_who_writes_while_a_run_is_parked_is_asked_what_becomes_of_it(
    limited: Limited, answer: str, state: str, texts: list[str]
) -> None:
    daemon = start(limited.segue)
    try:
        run = submit(daemon, "t", "remember number 7")["run"]
        until(lambda: show(daemon, run)["state"] == "parked")
        limited.limit.unlink()
        limited.talk.run("remember number 3")
        assert asks(limited, run)
        listed = f"{run}  t  you wrote since this message was parked: go on with it, or drop it?"
        assert limited.segue("answer").stdout.startswith(listed)
        finish(daemon.process)
        daemon = start(limited.segue)
        limited.over()
        limited.talk.run("what number?")
        assert show(daemon, run)["state"] == "needs_you", "it goes on only if somebody says so"
        wrong = limited.segue("answer", run, "perhaps")
        assert (wrong.code, wrong.stderr) == (2, 'segue: answer "go on" or "drop it"\n')
        assert limited.segue("answer", run, answer).code == 0
        limited.over()  # one that goes on waits for the end of the limit
        ended = finished(daemon, run)
        assert limited.segue("answer", run, answer).code != 0
    finally:
        finish(daemon.process)
    assert ended["state"] == state
    said = [each["text"] for each in limited.talk.log() if each["n"] is not None]
    assert [text for text in said if text not in ("what number?", "3")] == texts


def test_who_waits_for_a_parked_run_waits_for_the_answer_too(limited: Limited) -> None:
    process = limited.segue.start("run", "t", "remember number 7", "--park", "--json")
    run = limited.parked()["run"]
    limited.limit.unlink()
    limited.talk.run("remember number 3")
    assert asks(limited, run)
    assert process.poll() is None
    assert limited.segue("answer", run, "go on").code == 0
    with database(limited.segue.home / "segue.db", timeout=WAIT_S) as file:
        ((state, left_ms),) = file.execute(
            "SELECT state, not_before_ms - started_ms FROM turns WHERE id = ?", (run,)
        )
    assert (state, left_ms > 300_000) == ("parked", True), "the limit itself is not over yet"
    limited.over()
    code, turn, errors = told(process)
    assert (code, turn["run"], turn["text"]) == (0, run, "Noted: 7.")
    assert f'you wrote since: segue answer {run} "go on", or "drop it"' in errors


def test_what_is_to_start_later_is_not_asked_about(limited: Limited) -> None:
    run = limited.segue("run", "t", "remember number 7", "--at", "+1h", "-q").stdout.strip()
    limited.limit.unlink()
    limited.talk.run("remember number 3")
    assert [(each["run"], each["state"]) for each in limited.queue()] == [(run, "parked")]
    assert msgspec.json.decode(limited.segue("answer", "--json").stdout) == []


def test_one_run_is_seen_from_running_to_parked_to_done(served: tuple[Limited, Daemon]) -> None:
    limited, daemon = served
    everything = Stream(daemon, "/api/v1/events")
    run = submit(daemon, "t", "remember number 7")["run"]
    watching = limited.segue.start("watch", run)
    until(lambda: show(daemon, run)["state"] == "parked")
    parked = show(daemon, run)
    assert (parked["turn"], parked["not_before"] > 0) == (None, True)
    behind = submit(daemon, "t", "what number?")["run"]
    limited.over()
    assert finished(daemon, behind)["turn"]["text"] == "7"
    done = show(daemon, run)
    assert (done["state"], done["turn"]["text"], done["not_before"]) == ("done", "Noted: 7.", None)
    got = everything.wait(lambda got: settled(got, run))
    states = [
        each.data["run"]["state"] for each in got if each.kind == "run" and each.data["run"]["run"] == run
    ]
    seen = [state for at, state in enumerate(states) if at == 0 or states[at - 1] != state]
    assert [state for state in seen if state != "queued"] == ["running", "parked", "running", "done"]
    assert said(got, run) == "Noted: 7."
    out, _ = watching.communicate(timeout=WAIT_S)
    assert (watching.returncode, out) == (0, b"Noted: 7.\n")


def test_a_parked_run_wakes_once_after_the_daemon_was_killed(limited: Limited) -> None:
    daemon = start(limited.segue)
    run = submit(daemon, "t", "remember number 7")["run"]
    until(lambda: show(daemon, run)["state"] == "parked")
    finish(daemon.process)
    limited.over()
    daemon = start(limited.segue)
    try:
        done = finished(daemon, run)
    finally:
        finish(daemon.process)
    assert (done["state"], done["turn"]["text"], limited.calls) == ("done", "Noted: 7.", 2)
    assert limited.talk.texts() == ["remember number 7", "Noted: 7."]


def test_a_run_that_meets_a_limit_while_no_daemon_runs_is_parked_by_the_next(limited: Limited) -> None:
    limited.limit.unlink()
    daemon = start(limited.segue)
    gate = limited.segue.home.parent / "gate"
    wait = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]]{LIMIT}"
    run = submit(daemon, "t", wait, options={"permission": "full"})["run"]
    until(lambda: show(daemon, run)["mode"] is not None)
    finish(daemon.process)
    gate.touch()
    daemon = start(limited.segue)
    try:
        until(lambda: show(daemon, run)["state"] == "parked")
        limited.over()
        done = finished(daemon, run)
    finally:
        finish(daemon.process)
    assert (done["state"], done["turn"]["mode"], done["turn"]["tools_run"]) == ("done", "resume", 1)
    assert [each["outcome"] for each in done["turn"]["attempts"]] == ["rate_limited", "ok"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_client_at_a_limit_outlives_its_daemon(limited: Limited, killed: bool) -> None:
    daemon = start(limited.segue)
    client = limited.segue.start("run", "t", "remember number 7", "--park", "--json")
    run = limited.parked()["run"]
    if killed:
        finish(daemon.process)
    else:
        assert daemon.end() == 0
        finish(daemon.process)
    limited.over()
    code, turn, _ = told(client)
    assert (code, turn["run"], turn["text"]) == (0, run, "Noted: 7.")
    assert limited.talk.texts() == ["remember number 7", "Noted: 7."]


def test_a_run_whose_waiter_was_killed_stays_in_the_queue(limited: Limited) -> None:
    process = limited.segue.start("run", "t", "remember number 7", "--park", "--json")
    run = limited.parked()["run"]
    finish(process)
    limited.over()
    ran = limited.segue("queue", "run", "t")
    assert (ran.code, ran.stdout) == (0, f"{run}  t  rehearsal  done  Noted: 7.\n")


WAITS = """
SELECT t.not_before_ms - (SELECT MAX(ended_ms) FROM attempts) FROM turns AS t
WHERE t.state = 'parked' AND (SELECT COUNT(*) FROM attempts WHERE outcome = 'rate_limited') = ?
"""


def waits_s(limited: Limited, windows: int) -> float:
    """How long the one run waits, once it has met the limit so often."""
    found: list[float] = []

    def is_parked() -> bool:
        with database(limited.segue.home / "segue.db", timeout=WAIT_S) as file:
            found.extend(waits / 1000 for (waits,) in file.execute(WAITS, (windows,)))
        return bool(found)

    until(is_parked)
    return found[0]


def test_a_limit_that_always_ends_soon_is_tried_less_and_less_often(segue: Program) -> None:
    """The run wakes by itself only the first time: what it waits later is read, and cut short."""
    limited = Limited(segue, how="[[error 429 retry-after 1]]")
    daemon = start(segue)
    try:
        submit(daemon, "t", "remember number 7")
        for windows, least_s in ((2, 30), (3, 60), (4, 120)):
            assert least_s <= waits_s(limited, windows) < least_s + WAIT_S
            if windows == 3:  # how often it has woken survives the daemon
                finish(daemon.process)
                daemon = start(segue)
            limited.over(ended=False)
    finally:
        finish(daemon.process)


def test_after_so_many_windows_a_run_fails_and_keeps_its_message(limited: Limited) -> None:
    limited.segue.config((limited.segue.home / "config.toml").read_text() + "[limits]\nmax_windows = 2\n")
    process = limited.segue.start("run", "t", "remember number 7", "--park", "--json")
    for calls in (2, 3):
        limited.parked()
        limited.over(ended=False)
        until(lambda calls=calls: limited.calls == calls)  # type: ignore[misc]
    code, turn, _ = told(process)
    assert (code, turn["state"], turn["failure"]["kind"]) == (75, "failed", "rate_limited")
    assert turn["failure"]["retryable"]
    assert "not parked again: it has met the limit after each of 2 waits" in turn["notices"]
    assert limited.talk.texts() == ["remember number 7"]
    limited.over()
    retried = limited.segue("retry", "t", "--json")
    assert (retried.code, retried.turn["text"]) == (0, "Noted: 7.")


def test_a_killed_daemon_does_not_make_a_run_wait_for_ever(limited: Limited) -> None:
    """The run has woken as often as it may, and its daemon is killed before the agent meets the limit."""
    gate = limited.segue.home.parent / "gate"
    config = (limited.segue.home / "config.toml").read_text()
    limited.segue.config(config + "[limits]\nmax_windows = 1\n")
    wait = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]]"
    daemon = start(limited.segue)
    run = submit(daemon, "t", "remember number 7", options={"permission": "full"})["run"]
    until(lambda: show(daemon, run)["state"] == "parked")
    script = limited.segue.home.parent / "agent.sh"
    script.write_text(script.read_text().replace(LIMIT, wait + LIMIT))
    limited.over(ended=False)
    until(lambda: limited.calls == 2)
    until(lambda: any((limited.segue.home / "runs").glob(f"{run}*/process.json")))
    finish(daemon.process)
    gate.touch()
    daemon = start(limited.segue)
    try:
        ended = finished(daemon, run)
    finally:
        finish(daemon.process)
    assert (ended["state"], ended["turn"]["failure"]["kind"]) == ("failed", "rate_limited")


def test_the_oldest_run_tries_first(served: tuple[Limited, Daemon]) -> None:
    limited, daemon = served
    runs = [submit(daemon, f"k{n}", "remember number 7")["run"] for n in range(4)]
    until(lambda: [show(daemon, run)["state"] for run in runs] == ["parked"] * 4)
    first = show(daemon, runs[0])["not_before"]
    limited.over(ended=False)
    until(lambda: (show(daemon, runs[0])["not_before"] or 0) > first)
    assert limited.calls == 5  # only the oldest has tried again
    assert len({show(daemon, run)["not_before"] for run in runs}) == 1
    limited.over()
    assert [finished(daemon, run)["state"] for run in runs] == ["done"] * 4
    assert limited.calls == 9


def test_two_that_wake_a_run_at_the_same_moment_wake_it_once(served: tuple[Limited, Daemon]) -> None:
    """The client that waits for it, the daemon, and who starts it now."""
    limited, daemon = served
    waiting = limited.segue.start("run", "t", "remember number 7", "--park", "--json", "--no-daemon")
    run = limited.parked()["run"]
    limited.over()
    at_once = [
        threading.Thread(target=daemon.ask, args=("POST", f"/api/v1/runs/{run}/now")) for _ in range(4)
    ]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join(WAIT_S)
    code, turn, _ = told(waiting)
    assert (code, turn["run"], turn["text"]) == (0, run, "Noted: 7.")
    assert limited.calls == 2
    assert limited.talk.texts() == ["remember number 7", "Noted: 7."]


def test_only_one_of_two_wakes_a_parked_run(limited: Limited) -> None:
    run = limited.segue("run", "t", "hi", "--at", "+1h", "-q").stdout.strip()
    with (
        open_workspace(limited.segue.env, limited.segue.cwd) as one,
        open_workspace(limited.segue.env, limited.segue.cwd) as two,
    ):
        row = one.store.queued(run)
        assert row is not None
        barrier, woken = threading.Barrier(2), list[bool]()

        def wake(store: Store) -> None:
            barrier.wait(WAIT_S)
            woken.append(store.wake(row))

        threads = [threading.Thread(target=wake, args=(each.store,)) for each in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert sorted(woken) == [False, True]


def test_parking_and_retries_together(limited: Limited) -> None:
    process = limited.segue.start("run", "t", "remember number 7", "--park", "--retries", "2", "--json")
    limited.parked()
    limited.over()
    code, turn, _ = told(process)
    assert (code, turn["earlier"], len(turn["attempts"])) == (0, [], 2)


def test_a_retry_waits_at_a_limit_too(limited: Limited) -> None:
    limited.talk.run("remember number 7", code=75)
    process = limited.segue.start("retry", "t", "--park", "5h", "--json")
    limited.parked()
    limited.over()
    code, turn, _ = told(process)
    assert (code, turn["text"]) == (0, "Noted: 7.")
    assert limited.talk.texts() == ["remember number 7", "Noted: 7."]


def test_the_library_waits_too(limited: Limited) -> None:
    async def work() -> None:
        async with Segue(home=limited.segue.home, env=limited.segue.env, cwd=limited.segue.cwd) as door:
            with pytest.raises(Misuse, match="park takes a number above 0"):
                await door.run("t", "hi", park=-1)
            running = asyncio.create_task(door.run("t", "remember number 7", park=3_600))
            await asyncio.to_thread(limited.parked)
            limited.over()
            assert (await running).text == "Noted: 7."

    asyncio.run(asyncio.wait_for(work(), WAIT_S * 2))


def test_over_the_api_a_run_can_be_told_to_fail(served: tuple[Limited, Daemon]) -> None:
    _, daemon = served
    for key, park in (("a", False), ("b", 60)):
        run = submit(daemon, key, "hi", options={"park": park})["run"]
        assert finished(daemon, run)["turn"]["failure"]["kind"] == "rate_limited"
    run = submit(daemon, "t", "hi", options={"park": 3_600})["run"]
    until(lambda: show(daemon, run)["state"] == "parked")


@pytest.mark.parametrize("words", [["--park", "soon"], ["--park=soon"], ["--park=0"], ["--park=-1"]])
def test_a_duration_is_checked(segue: Program, words: list[str]) -> None:
    ran = segue("run", "t", "hi", "--agent", "rehearsal", *words)
    if words == ["--park", "soon"]:  # it is not a duration, so it is one argument too many
        assert "unexpected extra argument" in ran.stderr
    else:
        assert "is not a duration" in ran.stderr
    assert ran.code == 2
