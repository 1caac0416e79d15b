"""Runs that a process had taken and not begun when it was killed: they wait again, in their old places."""

from __future__ import annotations

import signal
import time
from typing import Any

import msgspec
import pytest

from segue.app.run_shapes import RunOrder
from segue.app.runs import enqueue_order
from segue.app.workspace import open_workspace
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_parking import Limited, until
from tests.integration.server.test_runs import finished, show, submit

__all__ = ["streams"]

HOUR_MS = 3_600_000


def execute(segue: Program, sql: str, *values: object) -> list[Any]:
    with database(segue.home / "segue.db", timeout=WAIT_S) as file:
        return file.execute(sql, values).fetchall()


def take(segue: Program, run: str) -> None:
    """As a process does that is killed before it has planned an attempt."""
    execute(segue, "UPDATE turns SET state = 'running', not_before_ms = NULL WHERE id = ?", run)
    execute(
        segue,
        "UPDATE messages SET place = COALESCE((SELECT MAX(o.place) FROM messages AS o"
        " WHERE o.conversation = messages.conversation), 0) + 1"
        " WHERE place IS NULL AND id = (SELECT message FROM turns WHERE id = ?)",
        run,
    )


def queued(segue: Program, key: str, *texts: str, **more: Any) -> list[str]:
    """Queued without a daemon, and run by nobody yet."""
    with open_workspace(segue.env, segue.cwd) as workspace:
        return [
            enqueue_order(workspace, key, RunOrder(message=text, agent="rehearsal", **more)).run
            for text in texts
        ]


def log(segue: Program, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = msgspec.json.decode(segue("log", key, "--json").stdout)
    return rows


def said(segue: Program, key: str) -> list[str]:
    return [each["text"] for each in log(segue, key) if each["n"] is not None]


def test_lines_whose_first_run_was_lost_go_on_in_their_order(segue: Program) -> None:
    texts, keys = [f"remember number {n}" for n in range(3)], [f"k{n}" for n in range(10)]
    lines = {key: queued(segue, key, *texts) for key in keys}
    for runs in lines.values():
        take(segue, runs[0])
    daemon = start(segue)
    try:
        for runs in lines.values():
            assert [finished(daemon, run)["state"] for run in runs] == ["done"] * 3
    finally:
        finish(daemon.process)
    for key in keys:
        assert said(segue, key)[::2] == texts
    assert execute(segue, "SELECT DISTINCT claims FROM turns ORDER BY claims") == [(0,), (1,)]


def test_what_was_lost_is_out_of_the_conversation_until_it_begins(segue: Program) -> None:
    (run,) = queued(segue, "k", "remember number 7")
    take(segue, run)
    other = segue("run", "k", "what number?", "--agent", "rehearsal")
    assert (other.code, other.stdout) == (0, "I do not know any number.\n")
    assert said(segue, "k") == ["what number?", "I do not know any number."]
    ran = segue("queue", "run", "k", "--json")
    (shown,) = msgspec.json.decode(ran.stdout)
    assert (ran.code, shown["run"], shown["turn"]["text"]) == (0, run, "Noted: 7.")
    assert said(segue, "k")[2:] == ["remember number 7", "Noted: 7."]


def test_the_retry_of_a_withdrawn_message_is_lost_with_its_message(segue: Program) -> None:
    (first,) = queued(segue, "k", "remember number 7")
    assert segue("queue", "rm", first).code == 0
    (retry,) = queued(segue, "k", "", retry_of=first)
    take(segue, retry)
    segue("run", "k", "what number?", "--agent", "rehearsal")
    assert said(segue, "k") == ["what number?", "I do not know any number."]
    assert segue("queue", "run", "k").stdout.startswith(retry)
    assert said(segue, "k")[2:] == ["remember number 7", "Noted: 7."]


@pytest.mark.parametrize("spoken", [False, True])
def test_a_message_for_which_tools_have_run_keeps_its_place(segue: Program, spoken: bool) -> None:
    limited = Limited(segue, how="[[shell echo x >> made]][[error 429 retry-after 600]]")
    daemon = start(segue)
    run = submit(daemon, "t", "go", options={"permission": "full"})["run"]
    until(lambda: show(daemon, run)["state"] == "parked")
    finish(daemon.process)
    limited.limit.unlink()
    take(segue, run)  # it was woken
    assert said(segue, "t") == ["go"]
    if spoken:
        segue("run", "t", "remember number 3", "--no-daemon")
        assert said(segue, "t")[:2] == ["go", "remember number 3"]
    ran = segue("queue", "run", "t", "--json")
    (shown,) = msgspec.json.decode(ran.stdout)
    assert (shown["run"], shown["state"]) == (run, "failed" if spoken else "done")
    assert (segue.cwd / "made").read_text() == "x\n"


def test_a_daemon_notices_that_the_process_of_a_run_is_gone(daemon: Daemon) -> None:
    segue = daemon.segue
    run = submit(daemon, "k", "remember number 7", not_before=int(time.time() * 1000) + HOUR_MS)["run"]
    behind = submit(daemon, "k", "remember number 8")["run"]
    take(segue, run)
    assert finished(daemon, run)["turn"]["text"] == "Noted: 7."
    assert finished(daemon, behind)["state"] == "done"
    assert said(segue, "k")[::2] == ["remember number 7", "remember number 8"]


def test_a_daemon_notices_that_a_process_beside_it_was_killed(daemon: Daemon) -> None:
    """Nothing is written when a process is killed."""
    beside = daemon.segue.start("run", "k", "[[slow 3]]", "--agent", "rehearsal", "--no-daemon")
    until(lambda: [*daemon.home.glob("runs/*/process.json")])  # the agent has started, with its message
    beside.send_signal(signal.SIGKILL)
    beside.communicate()
    until(lambda: execute(daemon.segue, "SELECT 1 FROM turns WHERE state = 'done'"))


@pytest.mark.parametrize("claims", [2, 3])
def test_a_run_that_is_lost_for_the_fourth_time_has_failed(segue: Program, claims: int) -> None:
    first, second = queued(segue, "k", "remember number 1", "remember number 2")
    take(segue, first)
    execute(segue, "UPDATE turns SET claims = ? WHERE id = ?", claims, first)
    daemon = start(segue)
    try:
        ended = finished(daemon, first)
        assert finished(daemon, second)["state"] == "done"
    finally:
        finish(daemon.process)
    if claims == 2:
        assert ended["state"] == "done"
    else:
        assert (ended["state"], ended["turn"]["failure"]["kind"]) == ("failed", "killed")


def test_a_lost_run_that_was_cancelled_does_not_run(daemon: Daemon) -> None:
    run = submit(daemon, "k", "[[shell touch ran]]", options={"permission": "full"}, not_before=2**50)["run"]
    execute(daemon.segue, "UPDATE turns SET cancel_asked_ms = 1 WHERE id = ?", run)
    take(daemon.segue, run)
    assert finished(daemon, run)["state"] == "cancelled"
    assert not (daemon.segue.cwd / "ran").exists()
