"""Enters a flow: takes its lease, runs its function from the top, and records how that ended.

It ends, it waits, somebody stops it, or this process is killed. In the last case nothing is recorded: the
flow stays ``running``, and whoever enters it next goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from segue.core.errors import InUse, Misuse, SegueError, StoreAway
from segue.core.flow import FlowState
from segue.core.model import Host
from segue.core.redact import Redactor
from segue.flows.context import Flow, FlowEnd
from segue.flows.definition import FlowDefinition
from segue.flows.halt import Lost, Stop, Stopped, Waiting
from segue.flows.journal import Journal, StepOrder, misplaced
from segue.flows.ports import TurnPort
from segue.flows.results import pack
from segue.flows.tree import flow_at_work, tree_lease
from segue.store.flow_records import FlowRow
from segue.store.flows import Overtaken, hash_of
from segue.store.leases import Lease, LeaseBusy, hold
from segue.store.store import Store
from segue.system import clock
from segue.system.loop import run_sync
from segue.system.processes import this_process

ENTERED: tuple[FlowState, ...] = ("running", "parked")
"""The states in which a flow can be entered."""
LONGEST_FAILURE = 2_000
T = TypeVar("T")


class Surroundings(msgspec.Struct, frozen=True):
    """Where flows run: the store, this host, its file locks, and what must not be recorded."""

    store: Store
    host: Host
    locks: Path
    secrets: tuple[str, ...] = ()


def flow_lease(flow_id: str) -> str:
    return f"flow:{flow_id}"


async def enter(
    definition: FlowDefinition,
    flow_id: str,
    around: Surroundings,
    port: TurnPort,
    stop: Stop,
    *,
    wait_s: float = 10.0,
) -> FlowRow:
    """Run the flow as far as it goes now. Returns it as it is then; raises ``InUse`` if another process runs
    it, or works in its tree. ``wait_s``: how long to wait for that."""
    flows = around.store.flows
    async with held(around, flow_lease(flow_id), stop, wait_s, f"the flow {flow_id} runs") as lease:
        row, steps, now_ms = await run_sync(_known, flows.entered, flow_id)
        if row.state not in ENTERED or (row.wake_ms or 0) > now_ms:
            return row
        if row.version != definition.version:
            other = f"began with version {row.version}, this is {definition.version}"
            then = f"to go on with this one, choose a step: segue flow resume {row.id} --from STEP"
            raise Misuse(f"the flow {row.id} {other}; {then}")
        async with _tree(row, around, stop, wait_s):
            journal, left = Journal(flows, lease.claim, row, steps, Redactor(around.secrets), stop), None
            with suppress(Lost, Overtaken):
                if row.state == "parked":
                    await _change(journal, goes_on=True, state="running")
                left = await _through(definition, journal, port)
        return left if left is not None else await run_sync(_known, flows.flow, flow_id)


async def _through(definition: FlowDefinition, journal: Journal, port: TurnPort) -> FlowRow | None:
    """Run the function, until it ends or waits. Returns the flow, if it was recorded how it was left."""
    while True:
        try:
            value = await _call(definition, journal, port)
        except Waiting as waiting:
            asked = await run_sync(journal.store.asked_for, journal.flow.id)
            if asked is not None:
                return await _stopped(journal, Stopped(asked))
            if await _waits(journal, waiting):
                return None
            journal = await journal.anew()  # what it asked has been answered meanwhile
        except Stopped as stopped:
            return await _stopped(journal, stopped)
        except StoreAway:
            raise  # it goes on when the store is back
        except Exception as error:
            why = _words(journal, error)
            return await _change(journal, state="failed", failure=why, ended_ms=clock.now_ms())
        else:
            return await _done(journal, value)


async def _call(definition: FlowDefinition, journal: Journal, port: TurnPort) -> Any:
    if journal.flow.asked is not None:
        raise Stopped(journal.flow.asked)
    given: dict[str, Any] = msgspec.json.decode(journal.flow.input)
    definition.check(given)
    value = await definition.function(Flow(journal, port), **given)
    left = journal.unvisited()
    if left is not None:
        raise StepOrder(misplaced(journal.flow, left, None))
    return value


async def _done(journal: Journal, value: Any) -> FlowRow:
    end = value if isinstance(value, FlowEnd) else FlowEnd("done", value)
    packed = pack(end.result, journal.redactor, "the result of the flow")
    data = packed.data
    if data is not None:
        flow, store, now_ms = journal.flow, journal.store, clock.now_ms()
        keep = partial(store.keep, name="result", data=data, media_type="application/json", now_ms=now_ms)
        await journal.fenced(lambda claim: keep(claim, flow.id))
    return await _change(
        journal,
        state="failed" if end.failed else "done",
        ending=end.end,
        result=packed.text,
        artefact=hash_of(data) if data is not None else None,
        ended_ms=clock.now_ms(),
    )


async def _waits(journal: Journal, waiting: Waiting) -> bool:
    """Record what the flow waits for. False: that is over already."""
    needs = waiting.needs
    if needs is None:
        await _change(journal, state="parked", wake_ms=waiting.wake_ms)
        return True
    store, flow = journal.store, journal.flow
    return await journal.fenced(lambda claim: store.wait_for_answer(claim, flow.id, needs))


async def _stopped(journal: Journal, stopped: Stopped) -> FlowRow | None:
    if stopped.kind == "pause":
        return await _change(journal, state="paused")
    if stopped.kind == "cancel":
        return await _change(journal, state="cancelled", ending="cancelled", ended_ms=clock.now_ms())
    return None


async def _change(journal: Journal, *, goes_on: bool = False, **fields: Any) -> FlowRow:
    """Record the flow with these changes; what it waited for is over. ``goes_on``: as in the store."""
    changed = msgspec.structs.replace(
        journal.flow, **{"needs": None, "wake_ms": None, "failure": None, "ending": None, **fields}
    )
    return await journal.fenced(lambda claim: journal.store.change(claim, changed, goes_on=goes_on))


def _words(journal: Journal, error: Exception) -> str:
    said = str(error) if isinstance(error, SegueError) else f"{type(error).__name__}: {error}"
    return journal.redactor.text(said)[:LONGEST_FAILURE]


def _known(find: Callable[[str], T | None], flow_id: str) -> T:
    found = find(flow_id)
    if found is None:
        raise Misuse(f"the flow {flow_id} was deleted")
    return found


@asynccontextmanager
async def _tree(row: FlowRow, around: Surroundings, stop: Stop, wait_s: float) -> AsyncIterator[None]:
    """Have the flow's working tree alone, if it wants that."""
    if row.tree is None:
        yield
        return
    name = await run_sync(tree_lease, Path(row.tree), around.host)
    why = f"another flow works in {row.tree}"

    def others() -> str | None:
        other = flow_at_work(around.store.flows, name, around.host, but=row.id)
        return f"the agent of the flow {other}" if other is not None else None

    async with held(around, name, stop, wait_s, why, behind=others):
        if (other := await run_sync(others)) is not None:  # it began, and was killed, just before
            raise InUse(f"{why} ({other}); try again later")
        yield


@asynccontextmanager
async def held(
    around: Surroundings,
    name: str,
    stop: Stop,
    wait_s: float,
    why: str,
    behind: Callable[[], str | None] | None = None,
) -> AsyncIterator[Lease]:
    """Hold a lease; ``InUse`` if it cannot be had in time. Whoever loses it writes nothing more. ``behind``:
    says who comes first, although the lease may be free."""
    flow_id = name.partition(":")[2]

    def heed() -> None:
        with suppress(SegueError):  # the store may be away
            asked = around.store.flows.asked_for(flow_id)
            if asked is not None:
                stop.ask(asked)

    try:
        async with hold(
            around.store,
            name,
            owner=this_process(around.host),
            locks=around.locks,
            until=time.monotonic() + wait_s,
            on_wait=lambda _: None,
            given_up=lambda: stop.kind is not None,
            on_loss=stop.lose,
            on_beat=heed if name.startswith("flow:") else None,
            behind=behind,
        ) as lease:
            yield lease
    except LeaseBusy as busy:
        raise InUse(f"{why} in another process ({busy.holder}); try again later") from None
