"""The run that a caller's key belongs to: returned if it is settled, otherwise followed until it is."""

from __future__ import annotations

import signal
import time
from contextlib import aclosing, suppress
from pathlib import Path

import anyio
import msgspec

from segue.core.errors import Misuse, SegueError
from segue.core.outcome import Failure, Outcome
from segue.core.turn import Turn, status_of
from segue.runner.attempt import Cancel, Guarded
from segue.store.leases import SEEN_S, LeaseBusy, hold, lease_name
from segue.store.records import BEGUN, QUEUED, TurnRow
from segue.store.store import Store
from segue.system.groups import ProcessGroup
from segue.system.loop import run_sync
from segue.system.processes import groups_of, is_near, owner_lives, this_process
from segue.turns.follow import follow, reported
from segue.turns.live_turn import Callbacks
from segue.turns.liveness import liveness_of
from segue.turns.message import withdraw
from segue.turns.observer import Observer
from segue.turns.prepare import Prepared
from segue.turns.recovery import recover
from segue.turns.report import TurnFacts, build_turn

WATCH_S = 0.5
"""How often to check whether the run's process is alive."""
LEASE_S = 2.0
"""How long to wait for the conversation's lease before looking at the run again."""
LISTEN_S = 0.1
"""How often to check whether it was cancelled here."""


async def known_run(prepared: Prepared, store: Store, run: str, callbacks: Callbacks, wait_s: float) -> Turn:
    """The same run, never a second one. Its events are passed on while it runs.

    Cancelling it here asks the process that runs it to end it. If that process died, the run is settled, and
    its agent ended if it still works.
    """
    until = time.monotonic() + wait_s
    while True:
        row = await run_sync(store.turn, run)
        if row is None:
            raise Misuse(f"the run {run} was deleted")
        if status_of(row.state) is not None:
            return reported(row, prepared.ask.conversation)
        try:
            if await run_sync(liveness_of, store, row, prepared.host) != "alive":
                await _settle(prepared, store, row, callbacks, until)
                if await run_sync(_is_back, store, run):
                    return _still_running(prepared, row, "it waits in the queue again")
            elif (turn := await _followed(prepared, store, row, callbacks, until)) is not None:
                return turn
        except LeaseBusy as busy:  # another turn may have settled it
            if time.monotonic() >= until:
                return _still_running(prepared, row, str(busy))
            await anyio.sleep(WATCH_S)
        if time.monotonic() >= until:
            return _still_running(prepared, row, "the run of this key is still running")


async def settle_run(
    prepared: Prepared, store: Store, run: str, callbacks: Callbacks, wait_s: float
) -> TurnRow | None:
    """Settle a run that a process began that is gone. Returns it as it is then: settled, waiting again, or
    taken over by another process; None: it was deleted."""
    until = time.monotonic() + wait_s
    while True:
        row = await run_sync(store.turn, run)
        if row is None or row.state not in BEGUN or time.monotonic() >= until:
            return row
        if await run_sync(liveness_of, store, row, prepared.host) == "alive":
            return row
        try:
            await _settle(prepared, store, row, callbacks, until)
        except LeaseBusy:
            await anyio.sleep(WATCH_S)


async def _followed(
    prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, until: float
) -> Turn | None:
    """The turn, once it is settled; None if its process died or the time is over."""
    turn: Turn | None = None
    failure: Exception | None = None
    audience = Guarded("on_event", callbacks.listener)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, prepared, store, row, until, tasks.cancel_scope)
        tasks.start_soon(_pass_on, prepared, store, row, callbacks.cancel)
        try:
            async with aclosing(follow(store, row.id, Observer.of(prepared))) as run:
                async for each in run:
                    if isinstance(each, Turn):
                        turn = each
                    else:
                        audience(each)
        except Exception as error:
            failure = error  # raised below: the task group would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return turn


async def _watch(
    prepared: Prepared, store: Store, row: TurnRow, until: float, scope: anyio.CancelScope
) -> None:
    """Stop following the run when its process is gone or the time is over."""
    alive = True
    while alive and time.monotonic() < until:
        with suppress(SegueError):  # the store may be away
            alive = await run_sync(liveness_of, store, row, prepared.host) == "alive"
        await anyio.sleep(WATCH_S)
    scope.cancel()


async def _settle(prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, until: float) -> None:
    """Settle a run whose process is gone, as the next turn of the conversation would. An agent that still
    works is followed to its end; cancelling ends it, a second time at once."""
    failure: Exception | None = None
    patient = msgspec.structs.replace(callbacks, cancel=Cancel())  # cancelling ends the run, not the wait
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pass_on, prepared, store, row, callbacks.cancel)
        try:
            await _recovered(prepared, store, row, patient, until)
        except Exception as error:
            failure = error  # raised below: the task group would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _recovered(
    prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, until: float
) -> None:
    async with hold(
        store,
        lease_name(row.conversation),
        owner=this_process(prepared.host),
        locks=prepared.segue_home.locks,
        until=min(until, time.monotonic() + _patience_s(prepared, row)),
        on_wait=lambda holder: callbacks.notice(f"waiting for another turn ({holder})"),
        given_up=lambda: False,
        on_loss=lambda: None,
    ) as lease:
        audience = Guarded("on_event", callbacks.listener)
        await recover(prepared, store, lease, None, callbacks, until, listeners={row.id: audience})
        now = await run_sync(store.turn, row.id)
        if now is not None and now.state == "queued" and now.via != QUEUED:
            never = msgspec.structs.replace(now, state="withdrawn")
            await run_sync(withdraw, store, reported(never, prepared.ask.conversation))


def _patience_s(prepared: Prepared, row: TurnRow) -> float:
    """A holder that cannot be seen from here must be watched for a while before it counts as dead."""
    unseen = owner_lives(row.owner, prepared.host, 0) is None
    return LEASE_S + SEEN_S if unseen else LEASE_S


async def _pass_on(prepared: Prepared, store: Store, row: TurnRow, cancel: Cancel) -> None:
    """Record that the run was cancelled, for whoever runs it; kill its agent the second time."""
    asked = 0
    while asked < 2:
        if cancel.asked > asked:
            with suppress(SegueError):  # the store may be away
                if asked == 0:
                    await run_sync(store.ask_cancel, row.id)
                else:
                    await run_sync(_kill, prepared, store, row)
                asked += 1
        await anyio.sleep(LISTEN_S)


def _kill(prepared: Prepared, store: Store, row: TurnRow) -> None:
    if is_near(row.owner, prepared.host):
        for attempt in store.attempts(row.id):
            for group in groups_of(Path(attempt.run_dir)):
                ProcessGroup(group).signal(signal.SIGKILL)


def _is_back(store: Store, run: str) -> bool:
    """Whether a queued run never got to work, or met a limit, and waits again."""
    row = store.turn(run)
    return row is not None and row.state in ("queued", "parked") and row.via == QUEUED


def _still_running(prepared: Prepared, row: TurnRow, why: str) -> Turn:
    outcome = Outcome(failure=Failure("session_busy", why))
    facts = TurnFacts.of_row(row, prepared.ask.conversation)
    return msgspec.structs.replace(build_turn(facts, outcome, duration_ms=0), state=row.state)
