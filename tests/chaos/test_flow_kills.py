"""Flows killed with -9, at each write of their journal and at any other moment: what is finished does not run
again, every turn runs once, and the flow ends with the right result."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from segue.system.processes import groups
from tests.chaos import flow_program
from tests.chaos.flow_stage import ENDS, MARKS, FlowStage
from tests.chaos.machines import machine
from tests.chaos.scenes import PATIENCE_S, Scene, Started, kill, until

RESULT = ["first", "one", "left", "right", "two", "last"]
TURNS = ["left", "one", "two"]
STEPS = ["first", "last", "right"]
MOST_WRITES = 14
"""The flow writes less often than this."""
KILLS, SOAK_KILLS = 5, 60
CONTINUED = "Understood."
"""What the rehearsal agent says if it is told to go on."""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, scene: Scene) -> str:
    """Where the flows are stored."""
    if request.param == "postgres":
        scene.segue.env["SEGUE_STORE_URL"] = request.getfixturevalue("postgres_url")
    return str(request.param)


def looked(scene: Scene, sql: str, *values: str) -> list[tuple[Any, ...]]:
    """From the store, as somebody who only looks."""
    url = scene.segue.env.get("SEGUE_STORE_URL")
    if url is None:
        return scene.rows(sql, *values)
    with psycopg.connect(url, autocommit=True) as db:
        if db.execute("SELECT to_regclass('segue.flow_steps')").fetchone() == (None,):
            return []
        db.execute("SET search_path TO segue")
        return db.execute(sql.replace("?", "%s").encode(), values).fetchall()


@pytest.fixture
def program(scene: Scene) -> list[str]:
    """The program, in the directory that it works in."""
    file = scene.segue.cwd / "flow_program.py"
    shutil.copy(Path(flow_program.__file__), file)
    return [sys.executable, str(file)]


def start(scene: Scene, program: list[str], *args: str, within: Sequence[str] = (), **env: str) -> Started:
    process = subprocess.Popen(
        [*within, *program, *args],
        cwd=scene.segue.cwd,
        env={**scene.segue.env, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    started = Started(process)
    scene._started.append(started)
    return started


def lines(scene: Scene, name: str) -> list[str]:
    file = scene.segue.cwd / name
    return file.read_text().split() if file.exists() else []


def clear(scene: Scene) -> None:
    for name in ("effects", "steps"):
        (scene.segue.cwd / name).unlink(missing_ok=True)


def ends_well(scene: Scene, program: list[str], key: str, *, interrupted: str | None = None) -> None:
    """Run it again to its end. ``interrupted``: the turn whose agent was killed. It is continued if its tool
    had been called, and the tool does not run twice."""
    ended = start(scene, program, key).end(PATIENCE_S)
    assert ended.stdout.split(" ", 2)[:1] == ["done"], (ended.stdout, ended.stderr[-3000:])
    told = msgspec.json.decode(ended.stdout.split(" ", 2)[2])
    if CONTINUED in told:
        assert interrupted is not None
        told[told.index(CONTINUED)] = interrupted
    assert told == RESULT
    counts = Counter(lines(scene, "effects"))
    assert sorted({*counts, *([interrupted] if interrupted else [])}) == TURNS
    assert set(counts.values()) == {1}, counts
    assert sorted(set(lines(scene, "steps"))) == STEPS
    assert not scene.agents()
    assert not looked(scene, "SELECT id FROM turns WHERE state IN ('queued', 'running', 'parked')")
    # Who is killed when all is written, and before it lets go of a lease, leaves the row of a dead process.
    left = [msgspec.json.decode(owner)["pid"] for (owner,) in looked(scene, "SELECT owner FROM leases")]
    assert not set(left) & set(groups())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)
def test_killed_at_each_write_of_its_journal(
    scene: Scene, database: str, program: list[str], when: str
) -> None:
    for number in range(1, MOST_WRITES + 1):
        clear(scene)
        key = f"{when}-{number}"
        struck = start(scene, program, key, f"{when}:{number}").end(PATIENCE_S)
        if struck.code == 0:
            assert number > 8, "it writes more often than that"
            return
        assert struck.code == -9, struck.stderr[-3000:]
        finished = finished_steps(scene, key)
        ends_well(scene, program, key)
        done = Counter(lines(scene, "steps"))
        assert all(done[name] == 1 for name in finished), (finished, done)
        assert all(count <= 2 for count in done.values()), done
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("lease", [1, 2, 3, pytest.param(4, marks=pytest.mark.soak)])
def test_killed_when_all_is_written_but_a_lease_is_still_held(
    scene: Scene, program: list[str], lease: int
) -> None:
    struck = start(scene, program, "k", f"holding:{lease}").end(PATIENCE_S)
    assert struck.code == -9, struck.stderr[-3000:]
    assert looked(scene, "SELECT name FROM leases")
    ends_well(scene, program, "k")


@pytest.mark.parametrize("struck", ["the program", "both"])
def test_killed_at_random_moments(
    scene: Scene, database: str, program: list[str], seed: int, soak: bool, struck: str
) -> None:
    dice = random.Random(f"{seed} {struck} {database}")
    for number in range(SOAK_KILLS if soak else KILLS):
        clear(scene)
        key = f"k{number}"
        started = start(scene, program, key)
        wanted = dice.randrange(1, 7)
        until(
            lambda: steps_of(scene, key) >= wanted or started.process.poll() is not None,  # noqa: B023
            f"step {wanted}",
            pause_s=0.002,
        )
        time.sleep(dice.random() * 0.3)
        started.kill()
        killed = None
        if struck == "both":
            killed = running_turn(scene, key)
            for pid in scene.agents():
                kill(pid)
        ends_well(scene, program, key, interrupted=killed)


def finished_steps(scene: Scene, key: str) -> set[str]:
    rows = looked(
        scene,
        "SELECT s.key FROM flow_steps AS s JOIN flows AS f ON f.id = s.flow"
        " WHERE f.key = ? AND s.kind = 'step' AND s.state = 'done'",
        key,
    )
    return {str(name) for (name,) in rows}


def steps_of(scene: Scene, key: str) -> int:
    rows = looked(
        scene, "SELECT COUNT(*) FROM flow_steps AS s JOIN flows AS f ON f.id = s.flow WHERE f.key = ?", key
    )
    return int(rows[0][0]) if rows else 0


def running_turn(scene: Scene, key: str) -> str | None:
    rows = looked(
        scene,
        "SELECT s.key FROM flow_steps AS s JOIN flows AS f ON f.id = s.flow"
        " WHERE f.key = ? AND s.kind = 'turn' AND s.state = 'running'",
        key,
    )
    return str(rows[0][0]) if rows else None


def test_the_program_is_not_run_by_somebody_else(scene: Scene, program: list[str]) -> None:
    """Two at once: one runs the flow, the other waits for it, and everything is done once."""
    both = [start(scene, program, "k") for _ in range(2)]
    ended = [each.end(PATIENCE_S) for each in both]
    assert [each.code for each in ended].count(0) >= 1, [each.stderr[-2000:] for each in ended]
    ends_well(scene, program, "k")
    assert Counter(lines(scene, "steps")) == Counter(STEPS)


def test_who_stood_still_and_was_overtaken_writes_nothing_more(
    scene: Scene, program: list[str], postgres_url: str
) -> None:
    scene.segue.env["SEGUE_STORE_URL"] = postgres_url
    first = start(scene, program, "k", WHO="a", **machine("a", scene))
    until((scene.segue.cwd / "begun-a").exists, "its step runs")
    first.signal(signal.SIGSTOP)
    with psycopg.connect(postgres_url, autocommit=True) as db:  # as if it had stood still for long
        db.execute("UPDATE segue.leases SET renewed_ms = renewed_ms - 3600000")
    scene.open_gate()
    second = start(scene, program, "k", WHO="b", **machine("b", scene)).end(PATIENCE_S)
    assert second.stdout.startswith("done "), (second.stdout, second.stderr[-3000:])
    rows = "SELECT s.key, s.tries, s.result, s.ended_ms FROM flow_steps AS s ORDER BY s.n"
    before, turns = looked(scene, rows), looked(scene, "SELECT id, state, ended_ms FROM turns")
    first.signal(signal.SIGCONT)
    woken = first.end(PATIENCE_S)
    assert woken.code == 0, woken.stderr[-3000:]
    assert woken.stdout == second.stdout, "it tells how the flow ended"
    assert msgspec.json.decode(woken.stdout.split(" ", 2)[2]) == ["first", "b", "turn", "b"]
    assert looked(scene, rows) == before
    assert looked(scene, "SELECT id, state, ended_ms FROM turns") == turns
    assert Counter(lines(scene, "steps")) == {"first": 1, "b": 1}
    assert lines(scene, "effects") == ["turn"]


ANSWERED = """
import os, runpy, signal
from pathlib import Path
from segue.rehearsal.agent.store import Session

add = Session.add

def struck(session, message):
    done = add(session, message)
    blows = Path(os.environ["PLACE"]) / "blows"
    if message.is_anchor and not blows.exists():
        blows.touch()
        if os.environ["STRUCK"] == "both":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return done

Session.add = struck
runpy.run_module("segue.rehearsal.agent", run_name="__main__")
"""
"""The agent, killed once: when its session has its answer, and nobody else does."""


@pytest.mark.parametrize("struck", ["the agent", "both"])
def test_killed_between_its_answer_and_the_end_of_its_output(scene: Scene, struck: str) -> None:
    """Its session shows that it has answered, so it is not asked again."""
    stage = FlowStage(scene)
    scene.segue.env["STRUCK"] = struck
    (stage.place / "struck.py").write_text(ANSWERED)
    command = msgspec.json.encode([sys.executable, "-P", str(stage.place / "struck.py")]).decode()
    scene.segue.config(f"[agents.rehearsal]\ncommand = {command}\n")
    words = stage.words("escalate", stage.tree("tree"), "k")
    ended = stage.start(*words).end(PATIENCE_S)
    if struck == "both":
        assert ended.code == -9, ended.stderr[-3000:]
        ended = stage.start(*words).end(PATIENCE_S)
    assert (ended.code, ended.turn["end"], ended.turn["rounds"]) == (0, *ENDS["escalate"]), ended
    assert (stage.place / "blows").exists()
    assert stage.effects == list(MARKS["escalate"])
    assert sorted(stage.answers()) == list(MARKS["escalate"]), "each has answered once"
    (first, *_) = (step for step in ended.turn["steps"] if step["run"])
    assert "the disk is full" in first["result"]["text"]
    assert first["result"]["status"] == "ok"
