"""What one process does about a run of another: it is cancelled, and followed live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from segue.config.load import load
from segue.core import events as ev
from segue.core.turn import Turn
from segue.store.store import Store, open_store
from segue.turns.follow import FollowedRun, follow
from segue.turns.observer import Observer
from segue.turns.run_dir import read_plan
from tests.chaos.scenes import GATE, KEY, Scene, until
from tests.integration.conftest import Program

WORK = f"[[shell echo one >> effects; {GATE}]] [[shell echo two >> effects]] [[say done]]"


@pytest.fixture
def scene(segue: Program) -> Iterator[Scene]:
    scene = Scene(segue)
    yield scene
    scene.clear()


def store_of(scene: Scene) -> Store:
    return open_store(None, scene.segue.home / "segue.db")


def observer(scene: Scene) -> Observer:
    return Observer.here(KEY, scene.segue.env, load(scene.segue.env, scene.segue.cwd))


def test_a_turn_is_cancelled_from_another_process(scene: Scene) -> None:
    started = scene.start(WORK)
    until(lambda: scene.effects == ["one"], "its first tool runs")
    (run,) = scene.rows("SELECT id FROM turns")
    with store_of(scene) as store:
        assert store.ask_cancel(run[0])
        done = started.end()
        assert (done.code, done.turn["status"], done.turn["failure"]["kind"]) == (
            130,
            "cancelled",
            "cancelled",
        )
        assert not store.ask_cancel(run[0]), "it is over"
    assert (scene.effects, scene.agents()) == (["one"], [])


def test_a_turn_that_waits_is_cancelled_from_another_process(scene: Scene) -> None:
    first = scene.start(WORK)
    until(lambda: scene.effects == ["one"], "the first one works")
    second = scene.start("hello")
    second.says("waiting for another turn")
    (run,) = scene.rows("SELECT id FROM turns WHERE state = 'queued'")
    with store_of(scene) as store:
        assert store.ask_cancel(run[0])
    done = second.end()
    assert (done.code, done.turn["state"]) == (130, "withdrawn")
    scene.open_gate()
    assert first.end().code == 0


def test_an_orphan_that_is_to_end_is_ended_by_the_next_run(scene: Scene) -> None:
    started = scene.start(WORK)
    until(lambda: scene.effects == ["one"], "its first tool runs")
    (run,) = scene.rows("SELECT id FROM turns")
    started.kill()
    with store_of(scene) as store:
        assert store.ask_cancel(run[0])
        assert scene.run("hello").turn["text"]
        row = store.turn(run[0])
    assert row is not None
    assert row.told is not None
    assert row.told.failure is not None
    assert (row.state, row.told.failure.message) == ("cancelled", "the turn was cancelled")
    assert (scene.effects, scene.agents()) == (["one"], [])


def test_a_run_of_another_process_is_followed_live(scene: Scene) -> None:
    started = scene.start(WORK)
    (run,) = until(lambda: scene.rows("SELECT id FROM turns"), "the run is stored")

    async def listen() -> list[ev.Event | Turn]:
        told: list[ev.Event | Turn] = []
        with store_of(scene) as store:
            async for each in follow(store, run[0], observer(scene)):
                told.append(each)
                if isinstance(each, ev.ToolCall) and scene.effects == ["one"]:
                    assert started.process.poll() is None, "it still runs"
                    scene.open_gate()
        return told

    async def bounded() -> list[ev.Event | Turn]:
        return await asyncio.wait_for(listen(), 60)

    until(lambda: scene.effects == ["one"], "its first tool runs")
    *events, turn = asyncio.run(bounded())
    assert isinstance(turn, Turn)
    assert (turn.run, turn.text, started.end().turn["text"]) == (run[0], "done", "done")
    kinds = [type(event).__name__ for event in events]
    assert (kinds.count("ToolCall"), kinds.count("ToolResult"), kinds.count("End")) == (2, 2, 1)
    settled = asyncio.run(_told_of(scene, run[0]))
    assert [each.run for each in settled if isinstance(each, Turn)] == [run[0]], "at once"


async def _told_of(scene: Scene, run: str) -> list[ev.Event | Turn]:
    with store_of(scene) as store:
        return [each async for each in follow(store, run, observer(scene))]


def test_a_stream_is_read_from_an_offset(scene: Scene) -> None:
    started = scene.start(WORK)
    until(lambda: scene.effects == ["one"], "its first tool runs")
    (run_dir,) = scene.run_dirs
    plan = read_plan(run_dir)
    assert plan is not None
    here = observer(scene)
    agent = here.agent("rehearsal")
    assert agent is not None
    before = (run_dir / "stdout").read_bytes()
    offset = before.index(b"\n") + 1
    told: list[ev.Event] = []
    whole: list[ev.Event] = []
    part = FollowedRun(plan, agent, here.redactor(plan, agent), told.append, offset=offset)
    all_of_it = FollowedRun(plan, agent, here.redactor(plan, agent), whole.append)
    assert part.lives
    for stream in (part, all_of_it):
        while stream.read():
            pass
    assert told
    assert whole[-len(told) :] == told
    assert len(whole) > len(told)
    all_of_it.release()
    started.kill()
    scene.open_gate()
    until(lambda: not part.lives, "the agent came to its end by itself")
    part.read_all()
    assert any(isinstance(event, ev.End) for event in told), "of one that is dead, too"
