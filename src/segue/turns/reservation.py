"""Waits until a reservation is given back that keeps a run from beginning, and settles the runs of dead
processes that hold one."""

from __future__ import annotations

import time
from contextlib import suppress

import anyio
import msgspec

from segue.core.errors import SegueError, StoreAway
from segue.runner.attempt import Cancel, Guarded, Replies
from segue.store.leases import LeaseBusy
from segue.store.records import NotWaiting, TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import WaitingTurn, shows_waiting
from segue.system.loop import in_loop, run_sync, shield
from segue.turns.gate import Reserved
from segue.turns.known_run import settle_run
from segue.turns.live_turn import Callbacks
from segue.turns.liveness import liveness_of, lost_runs
from segue.turns.prepare import Prepared

LISTEN_S = (0.05, 0.5)
"""The pause between two looks at what has changed: at first, and at most."""
LOOK_S = 5.0
"""How often a run looks at its budget although nothing has changed in the store: the configuration may have
changed, or the day, or a process may have died."""
SETTLE_S = 5.0
"""How long settling the run of a dead process may take before the others are looked at."""


async def wait_for_release(
    prepared: Prepared, store: Store, row: TurnRow, cancel: Cancel, reserved: Reserved, until: float
) -> None:
    """Wait until the run may try again to begin: something was given back, and no run that lives has waited
    longer for the same budget. Raises ``LeaseBusy`` at the end of the time, or if cancelled.

    Called without the conversation's lease, so that the conversation can be changed meanwhile."""
    await in_loop()
    waiting = WaitingTurn(store, row.id, row.owner)
    await run_sync(waiting.begin)
    try:
        seen, looked, pause = reserved.seen, time.monotonic(), LISTEN_S[0]
        while not cancel.asked and time.monotonic() < until:
            await anyio.sleep(pause)
            pause = min(pause * 1.5, LISTEN_S[1])
            await run_sync(_heed, store, row.id, cancel)
            late = time.monotonic() - looked >= LOOK_S
            now = await run_sync(_reserved, store)
            if now == seen and not late:
                continue
            if late:
                await _settle_dead(prepared, store)
            seen, looked, pause = now or seen, time.monotonic(), LISTEN_S[0]
            if await run_sync(_may_try, prepared, store, row, reserved.budget):
                return
        raise LeaseBusy(reserved.message, reserved.message)
    finally:
        with shield():
            await run_sync(waiting.end)


async def _settle_dead(prepared: Prepared, store: Store) -> None:
    """Settle the runs that have begun on this host and whose process and agent are gone: what is reserved for
    them is given back."""
    with suppress(SegueError, OSError):  # the store may be away
        for conversation in await run_sync(store.budgets.holders):
            for lost in await run_sync(lost_runs, store, conversation, prepared.host):
                if await run_sync(liveness_of, store, lost, prepared.host) == "dead":
                    there = await run_sync(_there, prepared, store, conversation)
                    quiet = Callbacks(None, Replies(None), Cancel(), Guarded("on_notice", None))
                    if there is not None:
                        await settle_run(there, store, lost.id, quiet, SETTLE_S)


def _there(prepared: Prepared, store: Store, conversation: str) -> Prepared | None:
    """What is needed to settle a run of another conversation; None: the conversation was deleted."""
    known = store.conversation_by_id(conversation)
    if known is None:
        return None
    ask = msgspec.structs.replace(prepared.ask, conversation=known.key)
    return msgspec.structs.replace(prepared, conversation=known, ask=ask)


def _reserved(store: Store) -> tuple[int, float, int] | None:
    """What is reserved now; None: the store is away."""
    try:
        return store.budgets.reservations()
    except SegueError:
        return None


def _may_try(prepared: Prepared, store: Store, row: TurnRow, budget: str) -> bool:
    """Whether no living process waits longer for this budget. A run that is back in its line, behind another
    one, does not wait: nobody tries to begin it."""
    try:
        ahead = store.budgets.in_front(row.id, budget)
        return not any(shows_waiting(store, each, prepared.host) for each in ahead)
    except SegueError:
        return False


def _heed(store: Store, run: str, cancel: Cancel) -> None:
    """End the wait as by Ctrl-C if any process asked for that. Raises ``NotWaiting`` if the run is over, or
    was begun by another process."""
    try:
        waits, cancelled = store.budgets.still_waits(run)
    except StoreAway:
        return
    if cancelled and not cancel.asked:
        cancel()
    elif not waits:
        raise NotWaiting(run)
