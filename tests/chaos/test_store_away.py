"""A store that goes away in mid-turn, for a moment or for good: the agent works on, and nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import psycopg
import pytest

from segue.turns.store_outage import WAITING
from tests.chaos.scenes import GATE, Scene, Started, until
from tests.postgres import Server, at

WORK = f"[[shell echo one >> effects; {GATE}]] [[shell echo two >> effects]] [[say done]]"
SLOW_WORK = WORK.replace("echo two >> effects", f"echo two >> effects; {GATE.replace('gate', 'gate2')}")
DOWN_S = 3.0
HASTY = """
from segue.store import database, sqlite
from segue.turns import store_outage
database.WAIT_S = sqlite.WAIT_S = 1
store_outage.LIMIT_S, store_outage.SAID_S = {limit_s}, 0.5
from segue.__main__ import main
main()
"""
"""The program with less patience: so that nobody waits for the store in the tests as long as users do."""


def hasty(scene: Scene, limit_s: float) -> None:
    scene.segue.command = [sys.executable, "-c", HASTY.format(limit_s=limit_s)]


@contextmanager
def locked(scene: Scene) -> Iterator[None]:
    """Somebody else writes to the store, and does not come to an end."""
    with contextlib.closing(sqlite3.connect(scene.segue.home / "segue.db", timeout=10)) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.rollback()


def at_work(scene: Scene, work: str = WORK) -> Started:
    started = scene.start(work)
    until(lambda: scene.effects == ["one"], "its first tool runs")
    return started


def tools(scene: Scene) -> list[str]:
    events = [msgspec.json.decode(event) for (event,) in scene.rows("SELECT event FROM events ORDER BY seq")]
    return [event["type"] for event in events if event["type"].startswith("tool-")]


CALLS = ["tool-call", "tool-result", "tool-call", "tool-result"]


@pytest.mark.parametrize("at_the_end", [False, True], ids=["while it works", "when it ends"])
def test_postgresql_is_restarted(scene: Scene, own_postgres: Server, at_the_end: bool) -> None:
    url = at(own_postgres.url, "postgres")
    scene.segue.env["SEGUE_STORE_URL"] = url
    started = at_work(scene, SLOW_WORK)
    own_postgres.stop()
    scene.open_gate()
    until(lambda: scene.effects == ["one", "two"], "it works on")
    if at_the_end:
        scene.open_gate("gate2")
        until(lambda: not scene.agents(), "the agent is through")
    time.sleep(DOWN_S)
    own_postgres.start()
    scene.open_gate("gate2")
    done = started.end()
    assert (done.code, done.turn["status"], done.turn["text"]) == (0, "ok", "done"), done.stderr
    assert scene.effects == ["one", "two"]
    with psycopg.connect(url) as db:
        db.execute("SET search_path TO segue")
        events = [msgspec.json.decode(row[0]) for row in db.execute("SELECT event FROM events ORDER BY seq")]
    assert [event["type"] for event in events if event["type"].startswith("tool-")] == CALLS
    assert [text for _, text in scene.said()][1:] == ["done"]
    assert scene.run("what now? [[say on]]").turn["mode"] == "resume"


def test_who_waits_for_another_turn_outlasts_a_restart(scene: Scene, own_postgres: Server) -> None:
    scene.segue.env["SEGUE_STORE_URL"] = at(own_postgres.url, "postgres")
    started = at_work(scene)
    waiting = scene.start("remember number 3")
    waiting.says("waiting for another turn")
    own_postgres.stop()
    time.sleep(DOWN_S)
    own_postgres.start()
    scene.open_gate()
    assert started.end().code == 0
    done = waiting.end()
    assert (done.code, done.turn["text"]) == (0, "Noted: 3."), done.stderr


def test_sqlite_is_locked_for_longer_than_a_write_waits(scene: Scene) -> None:
    hasty(scene, limit_s=60)
    started = at_work(scene)
    with locked(scene):
        scene.open_gate()
        until(lambda: scene.effects == ["one", "two"] and not scene.agents(), "the agent is through")
        started.says(WAITING)
        time.sleep(1.5)  # at least one more write comes to nothing
    done = started.end()
    assert (done.code, done.turn["status"], done.turn["text"]) == (0, "ok", "done"), done.stderr
    assert tools(scene) == CALLS
    assert scene.quiet()


def test_a_turn_that_cannot_be_settled_is_settled_by_the_next_run(scene: Scene) -> None:
    scene.run("remember number 7")
    hasty(scene, limit_s=1)
    started = at_work(scene)
    with locked(scene):
        scene.open_gate()
        done = started.end()
    turn = done.turn
    assert (done.code, turn["status"], turn["text"]) == (75, "failed", "done"), done.stderr
    assert (turn["failure"]["kind"], turn["failure"]["retryable"]) == ("unsettled", False)
    assert "do not retry it" in turn["failure"]["message"]
    assert turn["next"] == "segue last t"
    assert "Print it with: segue last t\n" in done.stderr
    assert scene.has("plan.json")
    assert scene.has("stdout")
    read = scene.segue(*turn["next"].split()[1:])
    assert (read.code, read.stdout) == (0, "done\n"), read.stderr
    after = scene.run("what numbers?").turn
    assert (after["mode"], after["text"]) == ("resume", "7")
    log = scene.log()
    assert [row["text"] for row in log][3:] == ["done", "what numbers?", "7"]
    assert (log[3]["status"], log[3]["run"]) == ("ok", turn["run"])
    assert scene.effects == ["one", "two"]
    assert tools(scene) == CALLS
    assert scene.quiet()


def test_a_store_that_is_locked_when_a_turn_begins_is_worth_another_try(scene: Scene) -> None:
    scene.run("remember number 7")
    hasty(scene, limit_s=1)
    with locked(scene):
        done = scene.start("remember number 8").end()
    assert done.code == 75
    assert msgspec.json.decode(done.stdout)["error"]["code"] == "store_away"
    assert scene.run("what numbers?").turn["text"] == "7"


def test_who_waits_for_the_store_can_be_stopped(scene: Scene) -> None:
    hasty(scene, limit_s=300)
    started = at_work(scene)
    with locked(scene):
        scene.open_gate()
        started.says(WAITING)
        started.signal(signal.SIGINT)
        done = started.end()
    assert (done.code, done.turn["failure"]["kind"], done.turn["text"]) == (75, "unsettled", "done")
    assert scene.run("go on").turn["mode"] == "resume"
    assert [text for _, text in scene.said()][1] == "done"
