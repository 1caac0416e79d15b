"""What is shown is in force, and never more than was asked for.

Whether a CLI keeps to it is shown on the real ones, in ``tests/live``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from segue import Segue, SegueError
from segue.agents.rehearsal.adapter import Rehearsal
from segue.core.laws import Door
from segue.turns.prepare import Prepared
from tests.laws.doors import ROWS, doors
from tests.laws.last_moment import at_the_gate
from tests.laws.stage import Stage, brief

Staged = Callable[..., Stage]
SWITCHES = '[limits]\non_limit = "switch"\norder = "listed"\n'
WHY = "settings.json allows the tool; remove the rule"


def _stage(staged: Staged, door: Door) -> Stage:
    stage = staged(new="b" if door in (Door.FAILOVER, Door.SUMMARY) else "a")
    stage.config(SWITCHES if door is Door.FAILOVER else "")
    stage.permission = "read"
    stage.deny = ("write",)
    return stage


@pytest.mark.parametrize("door", doors("permission"))
def test_what_is_asked_for_is_shown_and_passed_on(staged: Staged, door: Door) -> None:
    stage, row = _stage(staged, door), ROWS[door]

    async def work(library: Segue) -> set[str]:
        await row.before(stage, library, "k")
        before = {run for (run,) in stage.rows("SELECT id FROM turns WHERE state = 'done'")}
        await row.through(stage, library, "k")
        return before

    before = stage.play_out(work)
    runs = stage.rows("SELECT id, told FROM turns WHERE door = ?", door.value)
    runs = [each for each in runs if each[0] not in before]
    if door is Door.SUMMARY:  # its run is removed with its conversation
        assert [each.option("permission") for each in stage.starts[1:]] == [["read"]]
        return
    assert runs
    for run, told in runs:
        terms = msgspec.json.decode(told)["terms"]
        started = stage.started_by(run)
        assert started, f"{run} started nothing"
        for each in started:
            assert each.option("permission") == [terms["permission"]]
            assert each.option("deny-tool") == terms["deny_tools"]
            assert each.option("allow-tool") == terms["allow_tools"] == []
        if door is not Door.ANSWER:  # it was not asked for anything
            assert terms["permission"] == "read"


@pytest.mark.parametrize("when", ["before", "in the last moment"])
@pytest.mark.parametrize("door", doors("permission"))
def test_a_permission_that_is_not_in_force_starts_nothing(
    staged: Staged, door: Door, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent knows that its CLI would not keep to it: an allow rule was planted, for example; also while
    the run waited for its turn."""
    stage, row = _stage(staged, door), ROWS[door]

    before: list[str] = []

    def plant() -> None:
        monkeypatch.setattr(Rehearsal, "not_in_force", lambda *_: WHY, raising=False)

    def planted(now: Prepared) -> Prepared:
        plant()
        return now

    async def work(library: Segue) -> tuple[int, str]:
        await row.before(stage, library, "k")
        before.extend(stage.states(door.value))
        count = len(stage.starts)
        if when == "before":
            plant()
        else:
            at_the_gate(monkeypatch, stage, door, planted)
        return count, await _told(library, row.through, stage)

    count, told = stage.play_out(work)
    if when == "before":
        assert len(stage.starts) == count, told
    if door is not Door.SUMMARY:  # without one, the turns themselves are carried over
        assert WHY in told, told
    after = stage.states(door.value)
    assert [after.count(state) for state in ("done", "running")] == [before.count("done"), 0], told


async def _told(library: Segue, through: Any, stage: Stage) -> str:
    try:
        return brief(await through(stage, library, "k"))
    except SegueError as error:
        return str(error)


@pytest.mark.parametrize("tools", [("shell",), ("write",)])
def test_read_with_a_tool_that_changes_things_is_refused(staged: Staged, tools: tuple[str, ...]) -> None:
    """A bare name of such a tool would make ``read`` a word without meaning."""
    stage = staged()

    async def work(library: Segue) -> str:
        try:
            return brief(await library.run("k", "hello", permission="read", allow_tools=tools))
        except SegueError as error:
            return str(error)

    told = stage.play_out(work)
    assert stage.starts == [], told
    assert tools[0] in told
