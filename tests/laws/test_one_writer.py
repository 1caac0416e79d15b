"""One writer: while a run of a conversation works, no other one begins; who has lost it writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from segue import Segue, SegueError
from segue.core.laws import Door
from segue.turns import gate, turn
from segue.turns.prepare import Prepared
from tests.laws.doors import ROWS, doors
from tests.laws.last_moment import at_the_gate
from tests.laws.stage import Stage, Started, brief, until

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
    assert "done" in stage.states((Door.RUN if door in SETTLES else door).value)


def _held(door: Door) -> str:
    """What holds the run of the door, but no run before it."""
    return {Door.AGAIN: "hold-again", Door.FAILOVER: "hold-b"}.get(door, "hold")


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
    said: list[Any] = []

    def steal(now: Prepared) -> Prepared:
        stage.write("UPDATE leases SET token = 'another' WHERE name LIKE 'conversation:%'")
        return now

    def told(wanted: Door, request: Any) -> Any:
        answer = gate.admit(wanted, request)
        if wanted is door:
            said.append(answer)
        return answer

    async def work(library: Segue) -> tuple[list[str], list[Started]]:
        await row.before(stage, library, "k")
        before = stage.starts
        said.clear()
        stolen = at_the_gate(monkeypatch, stage, door, steal)
        monkeypatch.setattr(turn, "admit", told)
        through = asyncio.create_task(_through(stage, library, door))
        await until(lambda: said or through.done(), "the gate has judged")
        if ROWS[door].flow or door in LINES:  # these try again, until they have it
            through.cancel()
        await asyncio.gather(through, return_exceptions=True)
        return stolen, before

    stolen, before = stage.play_out(work)
    assert said, "the run never came to the gate"
    assert all(isinstance(each, gate.Refused) and each.law == "one writer" for each in said), said
    states = {row[0] for run in stolen for row in stage.rows("SELECT state FROM turns WHERE id = ?", run)}
    assert states <= {"withdrawn", "queued", "parked"}, states
    started = [each for run in stolen for each in stage.started_by(run)]
    assert not [each for each in started if each not in before]


LINES = (Door.QUEUE, Door.SCHEDULED, Door.WAKES, Door.ANSWER, Door.CONTINUE)
"""Their runs wait in a line."""


async def _through(stage: Stage, library: Segue, door: Door) -> str:
    try:
        return brief(await ROWS[door].through(stage, library, "k"))
    except SegueError as error:
        return str(error)
