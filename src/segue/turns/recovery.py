"""Settles what a killed Segue left behind, before the next turn begins.

A process that still runs is adopted: it is followed to its end, and only ended if its time is over or it
waits for an answer that nobody can give. Then the turn is settled from what it left (``killed_turn``).
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from segue.agents.base import Agent
from segue.core.outcome import DOUBT, Failure
from segue.runner.attempt import Listener
from segue.store.leases import OVERTAKEN, Lease, LeaseBusy, hold
from segue.store.records import BEGUN
from segue.store.store import Store
from segue.system.loop import run_sync
from segue.system.processes import this_process
from segue.turns import run_dir
from segue.turns.adopted_run import AdoptedRun, gone
from segue.turns.killed_turn import Conclusion, KilledTurn
from segue.turns.observer import Observer
from segue.turns.prepare import Prepared
from segue.turns.queued_run import back_in_line
from segue.turns.recorder import Recorder
from segue.turns.run_dir import Plan, session_lease_name

if TYPE_CHECKING:
    from segue.turns.live_turn import Callbacks

ORPHANED = "an earlier turn whose Segue was killed"
RECORD_S = 10.0
"""How long storing an orphan's events may delay the next turn."""


async def recover(
    prepared: Prepared,
    store: Store,
    lease: Lease,
    own: str | None,
    callbacks: Callbacks,
    until: float,
    why: Failure | None = None,
    listeners: Mapping[str, Listener] | None = None,
) -> None:
    """Settle every turn of the conversation that is stored as running; raises ``LeaseBusy`` if given up.

    Called under the conversation's lease, so no other Segue supervises these turns, whether their process is
    alive or not. ``own``: the turn that is about to begin. ``why``: the failure, if it is known.
    ``listeners``: who hears the events of these turns.
    """

    def given_up() -> bool:
        return callbacks.cancel.asked > 0 or time.monotonic() >= until

    for row in await run_sync(store.unsettled, prepared.conversation.id):
        if row.id == own or row.state not in BEGUN:
            continue
        if not await run_sync(back_in_line, store, row):
            killed = KilledTurn(row, store, Observer.of(prepared), lease.claim, why)
            listener = listeners.get(row.id) if listeners is not None else None
            await _Recovery(killed, prepared, given_up, callbacks.notice, listener).settle()


class _Recovery:
    """The recovery of one turn that another process began."""

    def __init__(
        self,
        left: KilledTurn,
        prepared: Prepared,
        given_up: Callable[[], bool],
        notice: Callable[[str], None],
        listener: Listener | None = None,
    ) -> None:
        self.left, self.prepared, self.given_up, self.notice = left, prepared, given_up, notice
        self._listener = listener

    async def settle(self) -> None:
        made, agent = await run_sync(self.left.made), self.left.agent()
        if made and agent is not None:
            await self._read(made, agent)
        else:
            await self._unread(agent)

    async def _read(self, made: Conclusion, agent: Agent) -> None:
        attempt, last = made[-1]
        redactor = self.left.redactor(last, agent)
        store, row, since_ms = self.left.store, self.left.row, made[0][0].started_ms
        events = await run_sync(store.events, row.id) if row.told is not None else []
        before = max((seq for seq, ms, _ in events if ms < since_ms), default=0)
        recorder = Recorder(store, row.id, self._listener, before)
        answered = await run_sync(self.left.answered)
        for _, plan in made:
            orphan = AdoptedRun(plan, agent, redactor, recorder, self.left.cancel_asked, answered)
            async with self._one_writer(plan):
                await self._follow(orphan, agent)
        if orphan.waits and not orphan.cancelled:
            await run_sync(self.left.keep_asked, [redactor.event(each) for each in orphan.waits])
        outcome = self.left.outcome(attempt, agent, orphan, redactor)
        await run_sync(partial(recorder.finish, RECORD_S, answered=outcome.failure is None))
        recorder.give_up()
        if not await run_sync(self.left.finish, made, agent, outcome):
            raise LeaseBusy(OVERTAKEN)
        for _, plan in made:
            if (trouble := await run_sync(run_dir.archive, plan.run_dir, redactor)) is not None:
                self.notice(trouble.text)

    @asynccontextmanager
    async def _one_writer(self, plan: Plan) -> AsyncIterator[None]:
        """Take over the session's lease together with the process that writes to it."""
        name = session_lease_name(plan)
        if name is None:
            yield
            return
        async with hold(
            self.left.store,
            name,
            owner=this_process(self.prepared.host),
            locks=self.prepared.segue_home.locks,
            until=math.inf,
            on_wait=lambda holder: self.notice(f"waiting for the session ({holder})"),
            given_up=self.given_up,
            on_loss=lambda: None,
        ):
            yield

    async def _follow(self, orphan: AdoptedRun, agent: Agent) -> None:
        if orphan.lives:
            self.notice(f"an earlier turn of {agent.facts.label} still runs; following it to its end")
        if not await orphan.read_to_end(self.given_up):
            raise LeaseBusy(ORPHANED)

    async def _unread(self, agent: Agent | None) -> None:
        """Settle a turn whose stream cannot be read, once its processes are gone."""
        if not await gone(self.left.run_dirs, self.given_up, self.left.cancel_asked):
            raise LeaseBusy(ORPHANED)
        if self.left.why is None and await run_sync(self.left.cancel_asked):
            self.left.why = Failure("cancelled", f"the turn was cancelled; {DOUBT}")
        if not await run_sync(self.left.conclude, agent):
            raise LeaseBusy(OVERTAKEN)
