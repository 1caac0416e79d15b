"""The end of a turn: everything is stored, in order, and the caller gets the turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec

from segue.core.errors import Broken
from segue.core.turn import FailureShown, Saved, Turn
from segue.core.verdicts import Said, say, with_notices
from segue.store.leases import OVERTAKEN
from segue.store.records import Parking
from segue.store.store import FORGET_AT_ONCE
from segue.system import clock
from segue.system.loop import run_sync
from segue.turns import forecast, run_dir, session_copies
from segue.turns.live_turn import LiveTurn
from segue.turns.report import Made, added_up, failed_if_denied, refused, repaid, report
from segue.turns.result import paid_again
from segue.turns.settlement import FinishedAttempt, booked_as_reserved, commit
from segue.turns.store_outage import StoreStillAway

UNSETTLED = "it succeeded, but the store could not be written; do not retry it: the next run records it"
EVENTS_S = 1.0
"""How long writing the last events may take before the store counts as away."""
FORGET_S = 1.0
"""How long a finished turn may spend deleting old events; the next one deletes the rest."""
DAY_MS = 24 * 3_600_000


async def settle(live: LiveTurn, attempts: Sequence[FinishedAttempt]) -> Turn:
    """Store everything, in order. After that, nothing can turn a success into a failure."""
    with suppress(StoreStillAway):  # even if the events cannot be written, try to write the turn
        await live.outage(partial(_write_events, live, attempts[-1].outcome.failure is None))
    last = attempts[-1]
    for notice in (*last.plan.notices, *last.result.notices, *_paid(last)):
        live.say(notice)
    for guard in (live.audience, live.callbacks.answerer, live.callbacks.notice):
        if (raised := guard.told()) is not None:
            live.say(raised)
    if (trouble := await run_sync(_keep_copy, live, last)) is not None:
        live.say(trouble)
    for notice in refused([each.outcome for each in attempts]):
        live.say(notice)
    turn = booked_as_reserved(_turn(live, attempts), live.admission.price.usd)
    turn = added_up(live.row.told, turn)
    parking = await live.outage(partial(_parking, live, last, turn))
    if parking is not None:
        turn = msgspec.structs.replace(turn, state="parked", next=None)
    elif (given_up := await live.outage(partial(_given_up, live, last, turn))) is not None:
        live.say(given_up)
        turn = with_notices(turn, live.notices)
    if not await live.outage(partial(_pin, live, attempts, turn, parking)):
        why = FailureShown("cancelled", None, f"this turn is over: {OVERTAKEN}", False)
        turn = msgspec.structs.replace(turn, state="cancelled", status="cancelled", failure=why, text="")
    await run_sync(_clear_up, live, attempts)
    return with_notices(turn, live.notices)


def unsettled(live: LiveTurn, attempts: Sequence[FinishedAttempt], away: StoreStillAway) -> Turn:
    """The report of a turn that could not be stored: its result is on disk, and the next run settles it."""
    key = attempts[-1].plan.key
    text = f"this turn is not recorded yet ({away}); the next run of {key} records it"
    live.say(say(text, "notice.unsettled", why=str(away), conversation=key))
    turn = report(
        _made(attempts),
        saved=Saved(),
        notices=live.notices,
        duration_ms=live.duration_ms,
        retry_of=live.row.retry_of,
    )
    if turn.failure is not None:
        return turn
    why, read = FailureShown("unsettled", None, UNSETTLED, False), f"segue last {turn.conversation}"
    return msgspec.structs.replace(turn, state="failed", status="failed", failure=why, next=read)


def _paid(last: FinishedAttempt) -> tuple[Said, ...]:
    """The notices about what the turn cost, and what paid."""
    return *paid_again(last.plan, last.outcome), *repaid(last.plan, last.outcome)


def _turn(live: LiveTurn, attempts: Sequence[FinishedAttempt]) -> Turn:
    last, prepared = attempts[-1], live.prepared
    turn = report(
        _made(attempts),
        saved=forecast.saved_by(last.plan, last.outcome, prepared.config.prices),
        notices=live.notices,
        duration_ms=live.duration_ms,
        retry_of=live.row.retry_of,
    )
    return failed_if_denied(turn, prepared.named) if prepared.ask.fail_on_denied else turn


def _made(attempts: Sequence[FinishedAttempt]) -> Made:
    return [(each.plan, each.outcome) for each in attempts]


def _keep_copy(live: LiveTurn, last: FinishedAttempt) -> Said | None:
    """Keep a copy of the session, if this turn has pinned one. Returns None, or what went wrong."""
    native_id = last.result.native_id
    if native_id is None or live.lease.lost:
        return None
    return session_copies.keep_copy(live.prepared, live.store, last.plan, native_id)


def _parking(live: LiveTurn, last: FinishedAttempt, turn: Turn) -> Parking | None:
    """How the run is parked; None: it is over."""
    if turn.failure is None or turn.failure.kind != "rate_limited":
        return None
    from segue.turns.parked_run import parking_of

    return parking_of(live, last, turn)


def _given_up(live: LiveTurn, last: FinishedAttempt, turn: Turn) -> Said | None:
    """That it has waited for a limit often enough; None: it has not."""
    if turn.failure is None or turn.failure.kind != "rate_limited":
        return None
    from segue.turns.parked_run import given_up

    return given_up(live, last)


def _pin(
    live: LiveTurn, attempts: Sequence[FinishedAttempt], turn: Turn, parking: Parking | None = None
) -> bool:
    """Store the turn. False: another process has taken it over and settled it."""
    hold = live.prepared.config.queue.on_failure == "hold"
    if commit(live.store, live.row, attempts, turn, live.lease.claim, parking=parking, hold=hold):
        return True
    # The connection may have been lost just after everything was written.
    row = live.store.turn(live.row.id)
    reported = row.told if row is not None else None
    return reported is not None and (reported.status, reported.duration_ms) == (turn.status, turn.duration_ms)


def _write_events(live: LiveTurn, answered: bool) -> None:
    if not live.recorder.finish(EVENTS_S, answered=answered):
        raise Broken(f"the store cannot record events: {live.recorder.trouble or 'it is slow'}")


def _clear_up(live: LiveTurn, attempts: Sequence[FinishedAttempt]) -> None:
    if not live.recorder.finish(EVENTS_S):
        count = live.recorder.give_up()
        text = f"{count:,} events of this turn are not recorded: the store was away"
        live.say(say(text, "notice.unrecorded", count=count))
    for each in attempts:
        if (trouble := run_dir.archive(each.plan.run_dir, live.redactor)) is not None:
            live.say(trouble)
    with suppress(Exception):  # otherwise the next turn does it
        _forget(live, time.monotonic() + FORGET_S)


def _forget(live: LiveTurn, until: float) -> None:
    """Delete old events and changes. A turn may leave more than one call deletes."""
    before_ms = clock.now_ms() - live.prepared.config.retention.days * DAY_MS
    live.store.forget_feed(before_ms)
    while live.store.forget_events(before_ms) == FORGET_AT_ONCE and time.monotonic() < until:
        pass
