"""What follows a run: at a limit it is parked and continues, or another account takes the message."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from segue.core.turn import Turn
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system.loop import in_loop, run_sync
from segue.turns.known_run import known_run
from segue.turns.live_turn import Callbacks
from segue.turns.message import Retry
from segue.turns.parked_run import wait_parked
from segue.turns.prepare import Prepared, prepare_retry
from segue.turns.queue import wait_s
from segue.turns.turn import Failover, take, take_queued


async def after_limits(
    prepared: Prepared, store: Store, turn: Turn, callbacks: Callable[[], Callbacks]
) -> Turn:
    """The turn; if it is parked, it is waited for, and continues."""
    await in_loop()
    while turn.state == "parked":
        run = turn.run
        again = msgspec.structs.replace(await run_sync(prepare_retry, prepared, store, turn), run=run)
        woken = await wait_parked(again, store, run, callbacks())
        if isinstance(woken, Turn):
            return woken
        if woken is None:
            return await known_run(again, store, run, callbacks(), math.inf)
        turn = await take_queued(again, store, woken, callbacks(), Retry())
    return turn


async def under_others(
    prepared: Prepared,
    store: Store,
    turn: Turn,
    callbacks: Callable[[], Callbacks],
    on_run: Callable[[str], None] | None,
    failover: Failover,
    accepted: TurnRow | None,
) -> tuple[Prepared, Turn]:
    """The turn; if it met a limit and another account can take its message, the turn of that account. If that
    one is parked, it is waited for, unless it was ``accepted`` from the queue."""
    await in_loop()
    while turn.failure is not None and turn.failure.kind == "rate_limited":
        other = await failover(prepared, turn, callbacks().notice) if turn.state == "failed" else None
        if other is None:
            break
        if on_run is not None:
            on_run(other.run)
        prepared, earlier = other, (*turn.earlier, turn.run)
        turn = await take(prepared, store, callbacks(), turn.message, failed_run=turn.run)
        if accepted is None:
            turn = await after_limits(prepared, store, turn, callbacks)
        turn = msgspec.structs.replace(turn, earlier=earlier)
    return prepared, turn


async def stored_turn(
    prepared: Prepared,
    store: Store,
    run: str,
    callbacks: Callable[[], Callbacks],
    *,
    ours: bool,
) -> Turn:
    """The turn of a run that is stored already. ``ours``: if it is parked, this process waits with it."""
    await in_loop()
    row = await run_sync(store.turn, run)
    if ours and row is not None and row.state == "parked" and row.told is not None:
        return await after_limits(prepared, store, row.told, callbacks)
    return await known_run(prepared, store, run, callbacks(), wait_s(prepared, ours))
