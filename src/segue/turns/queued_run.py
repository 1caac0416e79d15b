"""A run that waited in the queue: made ready when its turn comes, or put back if it never got to work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.core.errors import Broken
from segue.core.outcome import Failure
from segue.core.turn import Turn
from segue.store.records import QUEUED, QueuedRow, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import this_process
from segue.turns.message import enqueue, withdraw
from segue.turns.prepare import Prepared, prepare, prepare_retry
from segue.turns.report import report_row
from segue.turns.request import QueuedRequest

MOST_CLAIMS = 3
"""How often a run may be begun and lost before it reaches an attempt."""


class ReadyRun(msgspec.Struct, frozen=True):
    """A queued run that can start. ``retry``: the message that it retries, if it is not a new one."""

    prepared: Prepared
    row: TurnRow
    retry: str | None


def reopen(store: Store, queued: QueuedRow, env: Mapping[str, str]) -> ReadyRun:
    """Make a queued run ready to start in this process. ``Misuse``: what it needs is gone by now."""
    row = store.turn(queued.id)
    if row is None or queued.request is None:
        raise Broken(f"the run {queued.id} is not in the queue any more")
    request = msgspec.json.decode(queued.request, type=QueuedRequest)
    prepared = prepare(request.ask, env, store, Path(request.ask.here))
    owner = this_process(prepared.host)
    if not store.drive(row.id, owner):
        raise Broken(f"the run {queued.id} is not in the queue any more")
    return ReadyRun(
        msgspec.structs.replace(prepared, run=row.id),
        msgspec.structs.replace(row, owner=owner),
        request.retry,
    )


def back_in_line(store: Store, row: TurnRow) -> bool:
    """Whether a run whose process died had not got as far as an attempt, and now waits again."""
    if row.via != QUEUED:
        return False
    queued = store.queued(row.id)
    return queued is not None and queued.claims < MOST_CLAIMS and store.back_in_line(row.id)


def take_out(store: Store, row: TurnRow, key: str, failure: Failure) -> bool:
    """Withdraw a run that waits. False: it has begun."""
    if row.state not in ("queued", "parked"):
        return False
    never = msgspec.structs.replace(row, state="withdrawn")
    withdraw(store, report_row(never, key, failure))
    return True


def park_at_limit(prepared: Prepared, store: Store, turn: Turn) -> str | None:
    """If a queued run met a limit that ends at a known time, and did nothing: queue its message again, before
    all others, for that time. Returns the new run."""
    failure = turn.failure
    if failure is None or failure.kind != "rate_limited" or prepared.config.limits.on_limit == "fail":
        return None
    if (
        turn.tools_run != 0
        or failure.until is None
        or failure.until <= clock.now_ms()
        or turn.message is None
    ):
        return None
    again = prepare_retry(prepared, store, turn)
    again = msgspec.structs.replace(again, ask=msgspec.structs.replace(again.ask, key=None))
    row = enqueue(again, store, turn.message, failure.until)
    others = [each.id for each in store.line(row.conversation) if each.id != row.id]
    store.reorder([row.id, *others])
    return row.id
