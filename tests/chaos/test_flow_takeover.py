"""Who runs a flow stands still for longer than its lease lives, on another machine, and another one takes the
flow over. When it wakes up, it writes nothing more."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

from segue.config.home import home_of
from segue.config.trust import trust
from segue.store.lease_rows import DEAD_S
from tests.chaos.flow_stage import ENDS, MARKS, FlowStage, Witness
from tests.chaos.machines import machine
from tests.chaos.scenes import PATIENCE_S, Scene, Started, kill_group, until
from tests.history import Work, violations

TABLES = ("flows", "flow_steps", "flow_artefacts", "turns", "events", "messages", "held", "sessions", "pins")
ATTEMPTS = "SELECT id, turn, seq, mode, session, resumed_from, new_id, run_dir, started_ms FROM attempts"
"""Without how they ended: that its own process is gone, only the one who started it can note."""
HOUR_S = 3600
HASTY = """
from segue.store import leases
leases.SEEN_S = 3.0
from segue.__main__ import main
main()
"""
"""The program, that watches others for a shorter time than it does for users."""


def on(name: str, stage: FlowStage, *words: str) -> Started:
    """The program on another machine."""
    given = machine(name, stage.scene)
    for file in stage.place.parent.rglob("FLOW.toml"):  # on each machine, the user trusts it
        trust(home_of({**stage.scene.segue.env, **given}), file.parent)
    started = Started(stage.scene.segue.start(*words, within=given.pop("within"), **given))
    stage.scene._started.append(started)
    return started


def stand_still(stage: FlowStage, started: Started, silent_s: int, soak: bool) -> None:
    """As if so much time had passed; with ``--soak``, as long as it takes to count as dead."""
    started.signal(signal.SIGSTOP)
    if soak:
        time.sleep(DEAD_S + 1)
        return
    with psycopg.connect(str(stage.url), autocommit=True) as db:
        db.execute("UPDATE segue.leases SET renewed_ms = renewed_ms - %s", [silent_s * 1000])


def everything(stage: FlowStage) -> dict[str, list[tuple[Any, ...]]]:
    """What is stored about flows and turns."""
    asked = {name: f"SELECT * FROM {name}" for name in TABLES} | {"attempts": ATTEMPTS}
    return {name: sorted(stage.look(sql), key=str) for name, sql in asked.items()}


@pytest.mark.parametrize(
    ("kind", "silent_s"), [("review", HOUR_S), ("escalate", HOUR_S), ("escalate", DEAD_S + 10)]
)
def test_the_one_that_wakes_up_writes_nothing(
    scene: Scene, postgres_url: str, soak: bool, kind: str, silent_s: int
) -> None:
    """The review stands still in a check; the escalation in a turn, whose agent dies meanwhile. Who has been
    silent for a short time only is watched before it counts as dead."""
    stage = FlowStage(scene, postgres_url)
    if not soak:
        scene.segue.command = [sys.executable, "-c", HASTY]
    gate = f"touch {stage.place}/begun; while [ ! -e {stage.place}/gate ]; do sleep 0.05; done"
    words = stage.words(kind, stage.tree("tree"), "k")
    if kind == "review":
        words[words.index("--check") + 1] += f"; {gate}"
    else:
        (stage.place / "work").write_text(f"{gate}\n{(stage.place / 'work').read_text()}")
    with Witness(scene) as witness:
        first = on("a", stage, *words)
        until((stage.place / "begun").exists, "it is where it is to stand still")
        begun = {run for (run,) in stage.look("SELECT id FROM turns")}
        stand_still(stage, first, silent_s, soak)
        for pid in scene.agents():
            kill_group(pid)
        (stage.place / "gate").touch()
        second = on("b", stage, "flow", "resume", "k", "--json").end(PATIENCE_S)
    report = second.turn
    assert (second.code, report["end"], report["rounds"]) == (0, *ENDS[kind]), (report, second.stderr[-3000:])
    before = everything(stage)
    assert all(before[name] for name in ("flows", "flow_steps", "turns", "messages"))
    first.signal(signal.SIGCONT)
    woken = first.end(PATIENCE_S)
    after = everything(stage)
    # Events are read from the agent's output, and are the same whoever records them.
    heard = set(after["events"]) - set(before["events"])
    assert set(before["events"]) <= set(after["events"])
    assert {run for run, *_ in heard} <= begun, "only what its own agent had said before it stood still"
    assert {**after, "events": []} == {**before, "events": []}
    assert woken.turn["end"] == report["end"], "it tells how the flow ended"
    assert woken.turn["steps"] == report["steps"]
    done = Counter(stage.effects)
    assert {mark: done[mark] for mark in MARKS[kind]} == dict.fromkeys(MARKS[kind], 1), done
    assert sorted(stage.answers()) == sorted(MARKS[kind])
    assert violations((), (), Work(spells=witness.spells)) == []
    until(lambda: not scene.agents(), "no agent is left")
    assert not stage.look("SELECT id FROM turns WHERE state IN ('queued', 'running', 'parked')")
