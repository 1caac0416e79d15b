"""Times in the queue are judged by the database's clock: machines that share a store may disagree."""

from __future__ import annotations

import asyncio

import pytest

from segue import RunOrder, Segue
from segue.app.runs import enqueue_order
from segue.app.workspace import open_workspace
from segue.store.store import Store
from segue.system import clock
from tests.integration.conftest import Program

HOUR_MS = 3_600_000


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database's clock is an hour fast."""
    monkeypatch.setattr(Store, "clock_ms", lambda _: clock.now_ms() + HOUR_MS)


@pytest.mark.usefixtures("fast")
def test_a_time_has_come_when_the_database_says_so(segue: Program) -> None:
    with open_workspace(segue.env, segue.cwd) as workspace:
        for minutes, state in ((30, "queued"), (90, "parked")):
            at = clock.now_ms() + minutes * 60_000
            order = RunOrder(message="hi", agent="rehearsal", not_before=at)
            assert enqueue_order(workspace, "k", order).state == state


@pytest.mark.usefixtures("fast")
def test_a_line_waits_for_an_answer_by_the_same_clock(segue: Program) -> None:
    """A run that asks waits for half an hour; by two clocks, the line would go on at once, or much later."""

    async def work() -> None:
        async with Segue(home=segue.home, env=segue.env, cwd=segue.cwd) as door:
            order = RunOrder(message="hi", agent="rehearsal")
            run = (await door.runs.submit("k", order)).run
            async for _ in door.runs.watch(run):
                pass
            store = door.workspace.store
            conversation = door.workspace.conversation("k").id
            parked = RunOrder(message="later", agent="rehearsal", not_before=2**50)
            asking = (await door.runs.submit("k", parked)).run
            store.ask(asking, "q", '{"id": "q", "kind": "question", "asked": 0}')
            (asked,) = store.asked(conversation)
            assert abs(asked.asked_ms - store.clock_ms()) < 60_000

    asyncio.run(asyncio.wait_for(work(), 60))
