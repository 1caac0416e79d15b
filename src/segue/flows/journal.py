"""The record of a flow's steps: what is done, in which order the rest must come, and how often it was tried.

Everything is written under the flow's lease. Whoever has lost the lease writes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from segue.core.errors import Misuse
from segue.core.flow import StepKind, StepState
from segue.core.redact import Redactor
from segue.flows.halt import Lost, Stop
from segue.flows.results import Packed, pack
from segue.store.flow_records import FlowRow, StepRow
from segue.store.flows import Flows, Overtaken, hash_of
from segue.store.records import Claim
from segue.system import clock
from segue.system.loop import run_sync

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@~-]{0,99}")
T = TypeVar("T")


class StepOrder(Misuse):
    """The steps do not come in the order in which they were recorded."""


class Journal:
    """The steps of one flow, while this process runs it."""

    def __init__(
        self,
        store: Flows,
        claim: Claim,
        flow: FlowRow,
        steps: Sequence[StepRow],
        redactor: Redactor,
        stop: Stop,
    ) -> None:
        self.store, self.flow, self.redactor, self.stop = store, flow, redactor, stop
        self._claim = claim
        self._steps = {step.key: step for step in steps}
        self._order = [step.key for step in steps if step.n is not None and not step.together]
        self._last = max((step.n or 0 for step in steps), default=0)
        self._at = 0
        self._begun: set[str] = set()
        self._alone: str | None = None

    async def anew(self) -> Journal:
        """The record as it is now, for another entry."""
        steps = await run_sync(self.store.steps, self.flow.id)
        return Journal(self.store, self._claim, self.flow, steps, self.redactor, self.stop)

    async def begin(self, key: str, kind: StepKind, together: str, **fields: object) -> StepRow:
        """The step: as it is recorded, or recorded now as begun. ``together``: the group it runs in; empty:
        alone, and then in the same order as before."""
        self.stop.check()
        known = self._expected(key, kind, together)
        if not together:
            self._alone = key
        if known is not None and known.n is not None:
            return known if known.state in ("done", "waiting") else await self.change(known, state="running")
        self._last += 1
        tried = known.tries if known is not None else 1
        fresh = StepRow(
            flow=self.flow.id,
            key=key,
            tries=tried,
            n=self._last,
            together=together,
            kind=kind,
            previous=known.previous if known is not None else None,
            began_ms=clock.now_ms(),
        )
        return await self._record(msgspec.structs.replace(fresh, **fields))

    async def _record(self, fresh: StepRow) -> StepRow:
        """Record a new step, unless somebody has asked the flow to stop."""
        asked = await self.fenced(lambda claim: self.store.begin_step(claim, fresh))
        if asked is not None:
            self.stop.ask(asked)
            self.stop.check()
        self._steps[fresh.key] = fresh
        return fresh

    def leave(self, key: str) -> None:
        """The step is over, or was left."""
        if self._alone == key:
            self._alone = None

    async def change(self, step: StepRow, *, data: bytes | None = None, **fields: object) -> StepRow:
        """Record the step with these changes."""
        changed = msgspec.structs.replace(step, **fields)
        await self.fenced(lambda claim: self.store.write_step(claim, changed, data=data))
        self._steps[step.key] = changed
        return changed

    async def finish(self, step: StepRow, value: object, **fields: object) -> Packed:
        """Record the result of a step."""
        packed = pack(value, self.redactor, f"the result of the step {step.key}")
        data = packed.data
        done: StepState = "done"
        await self.change(
            step,
            data=data,
            state=done,
            result=packed.text,
            artefact=hash_of(data) if data is not None else None,
            failure=None,
            ended_ms=clock.now_ms(),
            **fields,
        )
        return packed

    async def fail(self, step: StepRow, why: str) -> None:
        """Record that a step failed: it runs again when the flow is entered again."""
        words = self.redactor.text(why)[:2000]
        await self.change(step, state="failed", failure=words, ended_ms=clock.now_ms())

    async def result(self, step: StepRow) -> bytes:
        """The recorded result of a step, as JSON."""
        if step.artefact is not None:
            data = await run_sync(self.store.artefact, step.artefact)
            return data if data is not None else b"null"
        return (step.result or "null").encode()

    async def fenced(self, write: Callable[[Claim], T]) -> T:
        """Write something under the flow's lease."""
        if self.stop.lost:
            raise Lost
        try:
            return await run_sync(write, self._claim)
        except Overtaken:
            self.stop.lose()
            raise Lost from None

    def unvisited(self) -> str | None:
        """The first step that is recorded, and that this entry has not come to."""
        return self._order[self._at] if self._at < len(self._order) else None

    def _expected(self, key: str, kind: StepKind, together: str) -> StepRow | None:
        """The step as it is recorded. Raises if it cannot come now."""
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise Misuse(f"{key!r:.60} is not the key of a step (1 to 100 letters, digits and . _ / @ ~ -)")
        if key in self._begun:
            raise Misuse(f"the step {key} comes twice: each step of a flow needs a key of its own")
        if not together and self._alone is not None:
            raise Misuse(
                f"the steps {self._alone} and {key} run at the same time: use flow.parallel for that"
            )
        if not together and self._at < len(self._order):
            if self._order[self._at] != key:
                raise StepOrder(misplaced(self.flow, self._order[self._at], key))
            self._at += 1
        self._begun.add(key)
        known = self._steps.get(key)
        if known is not None and known.n is not None and known.kind != kind:
            raise StepOrder(misplaced(self.flow, f"{key} ({known.kind})", f"{key} ({kind})"))
        return known


def misplaced(flow: FlowRow, recorded: str, asked: str | None) -> str:
    """The message for a step that does not come when it should. ``asked``: what comes; None: the end."""
    what = (
        f"the step {asked} comes where {recorded} is recorded"
        if asked is not None
        else f"the flow ended, but step {recorded} is recorded after this point"
    )
    return (
        f"{what}: the code of the flow {flow.kind} has changed"
        f" since it began (version {flow.version}); restore the code, or drop what is recorded with:"
        f" segue flow resume {flow.id} --from {recorded.partition(' ')[0]}"
    )
