"""A turn as a step of a flow: run exactly once, continued after a kill, tried again after a limit.
If its budget does not cover it, the flow asks.

The id of the run is recorded before the run begins, so whoever enters the flow again finds the same run. Each
further try is recorded, too, before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio
import msgspec

from segue.core.budget import asked_in_full
from segue.core.flow import FlowQuestion
from segue.core.request import Briefing, FlowPlace
from segue.core.turn import Turn
from segue.flows.aftermath import AGAIN, Aftermath, judge, tries_like
from segue.flows.halt import Waiting
from segue.flows.journal import Journal
from segue.flows.ports import Given, TurnOrder, TurnPort
from segue.flows.results import unpack
from segue.runner.attempt import Cancel
from segue.store.flow_records import StepRow
from segue.system import clock
from segue.system.loop import run_sync
from segue.turns.request import Options

LOOK_S = 0.5
"""How long to wait before a run that another process has is looked at again."""
MINUTE_MS = 60_000
WAIT_S = 7 * 24 * 3600.0
"""How long a turn waits for another one of its conversation."""
Span = tuple[int, int]
"""From when to when, in epoch milliseconds."""


class TurnStep:
    """``place``: the step, and what only flows can say about a turn."""

    def __init__(
        self,
        journal: Journal,
        port: TurnPort,
        conversation: str,
        text: str,
        options: Options,
        place: FlowPlace,
        briefing: Briefing | None = None,
        given: Given | None = None,
    ) -> None:
        self._journal, self._port = journal, port
        self._place, self._conversation, self._text = place, conversation, text
        # Each further try is one of the flow's own, so that it is recorded before it begins.
        self._options: Options = {"park": True, "wait": WAIT_S, **options, "retries": 0}
        self._briefing, self._given = briefing, given or Given()
        self._new: str | None = None
        """The id of a run that cannot have begun: it is new, and only we know it."""

    async def take(self, together: str) -> Turn:
        """The turn: as it is recorded, or run now."""
        step = await self._begun(together)
        if step.state == "done":
            return unpack(await self._journal.result(step), Turn)
        if step.state == "waiting":
            raise Waiting("budget")
        if step.wake_ms is not None:
            step = await self._woken(step)
        while True:
            turn = await self._run(step)
            meant = turn.state != "cancelled" or await run_sync(self._journal.store.cancel_asked, turn.run)
            next_ = await self._follows(step, turn) if meant else AGAIN
            if next_.what == "done" and not await self._is_covered(step, turn):
                step = await self._again(step, turn, AGAIN)
            elif next_.what == "done":
                await self._journal.finish(step, turn, run=turn.run, agent=turn.agent, wake_ms=None)
                return turn
            elif next_.what == "follow":
                await anyio.sleep(LOOK_S)
            else:
                step = await self._again(step, turn, next_)

    async def _follows(self, step: StepRow, turn: Turn) -> Aftermath:
        """What follows from how the turn ended, and from how its earlier tries did."""
        if turn.failure is None:
            return judge(turn, 1, clock.now_ms())
        store, flow = self._journal.store, self._journal.flow
        failed = await run_sync(store.failures_since, flow.id, step.key, step.began_ms)
        before = [kind for run, kind in failed.items() if run != turn.run]
        return judge(turn, tries_like(turn, before), clock.now_ms())

    async def _begun(self, together: str) -> StepRow:
        return await self._journal.begin(
            self._place.step,
            "turn",
            together,
            run=self._new_run(),
            conversation=self._conversation,
            agent=self._options.get("agent"),
            role=self._options.get("role"),
            tier=self._place.tier,
        )

    async def _is_covered(self, step: StepRow, turn: Turn) -> bool:
        """If its budget did not cover it, the flow asks, unless somebody has said that it is not raised.
        False: it is not known which budget that was, so another try finds out."""
        if turn.failure is None or turn.failure.kind != "budget" or step.question is not None:
            return True
        reached = await run_sync(self._port.reached, turn.run)
        if reached is None:
            return False
        asked = FlowQuestion(
            text=f'{asked_in_full(reached)} Answer with the new amount in dollars, or "stop".',
            needs="budget",
            asked=clock.now_ms(),
            budget=reached,
        )
        question = self._journal.redactor.text(msgspec.json.encode(asked).decode())
        await self._journal.change(step, state="waiting", question=question)
        raise Waiting("budget")

    async def _again(self, step: StepRow, turn: Turn, next_: Aftermath) -> StepRow:
        """Record another try. If it is for later, the flow waits until then."""
        self._journal.stop.check()
        step = await self._journal.change(
            step, tries=step.tries + 1, previous=turn.run, run=self._new_run(), wake_ms=next_.wake_ms
        )
        return step if next_.wake_ms is None else await self._woken(step)

    async def _woken(self, step: StepRow) -> StepRow:
        """Raise ``Waiting`` if its time has not come."""
        if step.wake_ms is not None and step.wake_ms > await run_sync(self._journal.store.clock_ms):
            raise Waiting(wake_ms=step.wake_ms)
        return await self._journal.change(step, wake_ms=None)

    def _new_run(self) -> str:
        self._new = clock.new_id()
        return self._new

    async def _run(self, step: StepRow) -> Turn:
        flow, stop, cancel = self._journal.flow, self._journal.stop, Cancel()
        order = TurnOrder(
            run=step.run or "",
            may_be_begun=step.run != self._new,
            run_key=f"flow/{flow.id}/{step.key}/{step.tries}",
            conversation=self._conversation,
            text=self._text,
            options=self._options,
            place=self._place,
            briefing=await self._timed(step),
            given=self._given,
            retry_of=step.previous,
        )
        self._new = None
        stop.add(cancel)
        try:
            turn = await self._port.run(order, cancel)
        finally:
            stop.remove(cancel)
        cancelled = turn.failure is not None and turn.failure.kind == "cancelled"  # perhaps before it began
        if cancelled and (stop.kind is not None or stop.lost):
            await self._stopped(step, turn)
        return turn

    async def _timed(self, step: StepRow) -> Briefing | None:
        """The briefing, with when the turn was wanted. Since the role's last answer, only the time counts in
        which the flow worked."""
        given, flow, asked_ms = self._briefing, self._journal.flow, step.began_ms
        if given is None:
            return None
        if 0 < given.ttl_minutes * MINUTE_MS < asked_ms - flow.created_ms:  # else none can be that old
            store, role = self._journal.store, step.role or ""
            since_ms = await run_sync(store.last_answer, flow.id, self._conversation, role, asked_ms)
            if since_ms is not None:
                spans = await run_sync(store.worked, flow.id, since_ms)
                asked_ms = since_ms + worked_ms(spans, since_ms, asked_ms)
        return msgspec.structs.replace(given, asked_ms=asked_ms)

    async def _stopped(self, step: StepRow, turn: Turn) -> None:
        """It was ended because the flow stops: that is no result, and another try begins when it goes on."""
        await self._journal.change(step, tries=step.tries + 1, previous=turn.run, run=clock.new_id())
        self._journal.stop.check()


def worked_ms(spans: Iterable[Span], since_ms: int, until_ms: int) -> int:
    """How much of the time between the two is in the spans. What they have in common counts once."""
    total, reached = 0, since_ms
    for began, ended in sorted(spans):
        first, last = max(began, reached), min(ended, until_ms)
        if last > first:
            total, reached = total + last - first, last
    return total
