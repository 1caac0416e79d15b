"""Never twice, never lost: whenever Segue is killed, a run ends once, under its id, with one effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from segue import LogMessage, Segue
from segue.core.laws import Door
from tests.laws.doors import ROWS, doors, passes
from tests.laws.program import MOMENTS
from tests.laws.stage import Stage, until

Staged = Callable[..., Stage]
SWITCHES = '[limits]\non_limit = "switch"\norder = "listed"\n'
SETTLES = (Door.RECOVERY, Door.ADOPTION)
IN_LINE = (Door.QUEUE, Door.SCHEDULED, Door.WAKES, Door.ANSWER, Door.CONTINUE)
"""They wait in a line, so the next daemon runs them."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("door", [each for each in doors("never lost") if each not in SETTLES])
def test_a_killed_run_ends_once(staged: Staged, door: Door, moment: str) -> None:
    stage, row = staged(new="b" if door in (Door.FAILOVER, Door.SUMMARY) else "a"), ROWS[door]
    stage.config(SWITCHES if door is Door.FAILOVER else "")
    stage.play_out(lambda library: row.before(stage, library, "k"))
    before = set(_runs(stage, door))
    started = len(stage.starts)
    hold = {Door.AGAIN: "hold-again", Door.FAILOVER: "hold-b"}.get(door, "hold")
    if moment == "at work":
        stage.hold(hold)
    stage.killed(door.value, "k", moment)
    stage.release(hold)
    killed = [run for run in _runs(stage, door) if run not in before or door is Door.WAKES]
    assert len(killed) == 1 or door is Door.COMPARE, killed  # two reviews, at the same time

    async def after(library: Segue) -> None:
        await library.service.start()
        if door is Door.FLOW:  # it does not come with Segue
            await library.flows.resume("k", definition=passes)
        await until(lambda: not _unfinished(stage), "nothing runs and nothing waits")

    stage.play_out(after)
    runs = _runs(stage, door)
    new = [run for run in runs if run not in before or door is Door.WAKES]
    marks = [each.mark for each in stage.starts]
    assert len(marks) == len(set(marks)), "an attempt was started twice"
    answered = [run for run in new if runs[run][0] == "done"]
    per_message = [runs[run][1] for run in answered]
    assert len(per_message) == len(set(per_message)), "a message was answered twice"
    if moment != "before the plan":
        run = next(each for each in killed if stage.started_by(each))
        assert runs[run][0] == "done", f"what its agent did is lost: {runs[run]}"
        assert len(stage.started_by(run)) == (2 if door is Door.WAKES else 1)
    elif row.flow:  # its step goes on, by the flow's own door
        messages = {runs[run][1] for run in killed}
        done = {each for (each,) in stage.rows("SELECT message FROM turns WHERE state = 'done'")}
        assert messages <= done, f"it was accepted, and is lost: {runs}"
    elif door in IN_LINE:
        assert answered, f"it was accepted, and is lost: {runs}"
    else:
        (run,) = killed
        assert runs[run][0] in ("withdrawn", "failed", "done"), runs[run]
        assert stage.rows("SELECT text FROM revisions WHERE message = ?", runs[run][1])
    if row.flow and door is not Door.FLOW:
        assert {state for (state,) in stage.rows("SELECT state FROM flows")} == {"done"}
    assert len(stage.starts) > started or moment == "before the plan"


@pytest.mark.parametrize("door", SETTLES)
def test_a_run_is_settled_once_whoever_settles_it(staged: Staged, door: Door) -> None:
    """Two processes look after what was killed, at the same time."""
    stage, row = staged(), ROWS[door]

    async def work(library: Segue) -> list[LogMessage]:
        await row.before(stage, library, "k")
        async with stage.opened() as other:
            await asyncio.gather(row.through(stage, library, "k"), row.through(stage, other, "k"))
        return await library.log("k")

    log = stage.play_out(work)
    (killed,) = [run for run, (_, _, text) in _runs(stage, Door.RUN).items() if text == "what word?"]
    assert len(stage.started_by(killed)) == 1
    assert _runs(stage, Door.RUN)[killed][0] == ("failed" if door is Door.RECOVERY else "done")
    answers = [each for each in log if each.run == killed and each.sender == "assistant"]
    assert len(answers) == (0 if door is Door.RECOVERY else 1)


def _runs(stage: Stage, door: Door) -> dict[str, tuple[Any, ...]]:
    """Of each run of the door: its state, its message, and that message's text."""
    rows = stage.rows(
        "SELECT t.id, t.state, t.message, (SELECT text FROM revisions AS r WHERE r.message = t.message"
        " LIMIT 1) FROM turns AS t WHERE t.door = ? ORDER BY t.id",
        door.value,
    )
    return {row[0]: row[1:] for row in rows}


def _unfinished(stage: Stage) -> list[Any]:
    turns = stage.rows("SELECT id FROM turns WHERE state IN ('queued', 'running')")
    return turns or stage.rows("SELECT id FROM flows WHERE state = 'running'")
