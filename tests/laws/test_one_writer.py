"""One writer: while a run of a conversation works, no other one begins, and who has lost it writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from segue import Segue, SegueError
from segue.core.laws import Door
from segue.turns import gate
from tests.laws.doors import ROWS, doors
from tests.laws.stage import Stage, brief, until

Staged = Callable[..., Stage]
SWITCHES = '[limits]\non_limit = "switch"\norder = "listed"\n'
SETTLES = (Door.RECOVERY, Door.ADOPTION)


def _stage(staged: Staged, door: Door) -> Stage:
    stage = staged(new="b" if door in (Door.FAILOVER, Door.SUMMARY) else "a")
    stage.config(SWITCHES if door is Door.FAILOVER else "")
    return stage


@pytest.mark.parametrize("door", [each for each in doors("one writer") if each is not Door.SUMMARY])
def test_a_second_run_waits_until_the_first_has_ended(staged: Staged, door: Door) -> None:
    stage, row = _stage(staged, door), ROWS[door]

    async def work(library: Segue) -> None:
        await row.before(stage, library, "k")
        if door is not Door.ADOPTION:  # its agent is held already
            stage.hold(_held(door))
        through = asyncio.create_task(row.through(stage, library, "k")) if door not in SETTLES else None
        working = ("running",) if door in SETTLES else ("running", "needs_you")
        if door is Door.RECOVERY:
            stage.release()
            return
        run, conversation = await until(lambda: _working(stage, door, working), "it works")
        count = len(stage.starts)
        second = await library.run(conversation, "me too", wait=0, cwd=_cwd(stage, run))
        assert second.failure is not None
        assert (second.state, second.failure.kind) == ("withdrawn", "session_busy"), brief(second)
        assert len(stage.starts) == count, "a second agent was started in the conversation"
        stage.release(_held(door))
        await (through if through is not None else row.through(stage, library, "k"))

    stage.play_out(work)
    by_message = stage.rows("SELECT message, COUNT(*) FROM turns WHERE state = 'done' GROUP BY message")
    assert all(count == 1 for _, count in by_message)


def _held(door: Door) -> str:
    """A run that comes after others of its session."""
    return "hold-again" if door is Door.AGAIN else "hold"


def _working(stage: Stage, door: Door, states: tuple[str, ...]) -> Any:
    """The run of this door that works, once its agent was started, with the key of its conversation."""
    wanted = Door.RUN if door in SETTLES else door
    rows = stage.rows(
        "SELECT t.id, c.key, t.state FROM turns AS t JOIN conversations AS c ON c.id = t.conversation"
        " WHERE t.door = ?",
        wanted.value,
    )
    working = ((run, key) for run, key, state in rows if state in states and stage.started_by(run))
    return next(working, None)


def _cwd(stage: Stage, run: str) -> str:
    return str(stage.rows("SELECT cwd FROM turns WHERE id = ?", run)[0][0])


@pytest.mark.parametrize("door", [each for each in doors("one writer") if each not in SETTLES])
def test_who_has_lost_the_conversation_begins_nothing(
    staged: Staged, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was stopped for too long, and another one took the lease: right before it begins."""
    stage, row = _stage(staged, door), ROWS[door]
    stolen: list[str] = []
    as_of_now = gate.as_of_now

    def overtaken(prepared: Any, store: Any) -> Any:
        wanted = Door.WAKES if door is Door.WAKES else prepared.ask.door
        if wanted is door:
            stage.write("UPDATE leases SET token = 'another' WHERE name LIKE 'conversation:%'")
            stolen.append(prepared.run)
        return as_of_now(prepared, store)

    async def work(library: Segue) -> str:
        await row.before(stage, library, "k")
        monkeypatch.setattr(gate, "as_of_now", overtaken)
        return await _told(library, row.through, stage)

    told = stage.play_out(work)
    assert stolen, told
    states = {row[0] for run in stolen for row in stage.rows("SELECT state FROM turns WHERE id = ?", run)}
    assert states <= {"withdrawn", "queued", "parked"}, (states, told)
    assert not [each for run in stolen for each in stage.started_by(run)], told


async def _told(library: Segue, through: Any, stage: Stage) -> str:
    try:
        return brief(await asyncio.wait_for(through(stage, library, "k"), 8))
    except (SegueError, TimeoutError) as error:
        return str(error)
