"""The way of a turn.

message ─▶ store ─▶ lease ─▶ gate ─▶ decide ─▶ compose ─▶ launch ─▶ stream ─▶ settle ─▶ pin ─▶ reply
                                      ▲                                        │
                                      └──────────── step down (once) ──────────┘
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from segue.core.errors import Forbidden, Misuse, NotInstalled, StoreAway
from segue.core.laws import Door
from segue.core.outcome import Failure
from segue.core.turn import Turn
from segue.runner.attempt import Answerer, Cancel, Guarded, Listener, Replies
from segue.store.leases import Lease, LeaseBusy, hold, lease_name
from segue.store.records import BEGUN, QUEUED, KnownRun, NotWaiting, TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import WaitingTurn
from segue.system import clock
from segue.system.loop import failures, in_loop, run_sync, shield
from segue.turns.attempts import decide, restore, step_down, stepped_words, try_once
from segue.turns.gate import Admission, AdmissionRequest, Reserved, admit
from segue.turns.live_turn import NOTHING, Callbacks, LiveTurn, StoredTurn, before_parking
from segue.turns.marks import record_carried, with_words_of
from segue.turns.message import Retry, WentOn, in_line, place, receive, update_login, withdraw
from segue.turns.prepare import Prepared, prepare_retry
from segue.turns.queue import Queue, wait_s
from segue.turns.request import NONE
from segue.turns.retries import failed_with_same_text, retry_while_temporary
from segue.turns.store_outage import StoreStillAway

if TYPE_CHECKING:
    from segue.turns.settlement import FinishedAttempt

NOT_BEGUN = Failure("cancelled", "the turn was cancelled before it began")
Failover = Callable[[Prepared, Turn, Callable[[str], None]], Awaitable[Prepared | None]]
"""Another account takes the message of a turn that met a limit: prepares its run. None: none can."""


async def run(
    prepared: Prepared,
    store: Store,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
    on_notice: Callable[[str], None] | None = None,
    retry_message: str | None = None,
    accepted: TurnRow | None = None,
    may_be_begun: bool = False,
    on_run: Callable[[str], None] | None = None,
    failover: Failover | None = None,
) -> Turn:
    """Run the turn, and retry it as often as requested while its failure looks temporary.

    ``retry_message``: the message to retry, instead of a new one. ``accepted``: the run, if it waited in the
    queue. ``may_be_begun``: another process may have stored a run with this id, and died. ``on_run``: gets
    the id of each retry before its events. ``failover``: finds another account after a limit."""
    cancel, notice = cancel or Cancel(), Guarded("on_notice", on_notice)
    last = prepared

    def callbacks() -> Callbacks:
        return Callbacks(on_event, Replies(answer), cancel, notice)

    async def retry(failed: Turn) -> Turn:
        turn = await _retry(last, store, callbacks(), failed, on_run)
        turn = turn if accepted else await _after_limits(last, store, turn, callbacks)
        return await under_others(turn)

    async def under_others(turn: Turn) -> Turn:
        """The turn of another account, if this one met a limit and another account can take its message."""
        nonlocal last
        if failover is None or turn.failure is None or turn.failure.kind != "rate_limited":
            return turn
        from segue.turns import later_runs

        last, turn = await later_runs.under_others(last, store, turn, callbacks, on_run, failover, accepted)
        return turn

    try:
        first = await _first(prepared, store, callbacks, retry_message, accepted, may_be_begun)
    except KnownRun as known:
        from segue.turns.later_runs import stored_turn

        return await stored_turn(prepared, store, known.run, callbacks, ours=may_be_begun)
    first = await under_others(first)
    return await retry_while_temporary(first, _retries(prepared), retry, lambda: cancel.asked > 0, notice)


async def _first(
    prepared: Prepared,
    store: Store,
    callbacks: Callable[[], Callbacks],
    retry_message: str | None,
    accepted: TurnRow | None,
    may_be_begun: bool,
) -> Turn:
    """The first run of a call. ``accepted``, ``may_be_begun``: as in ``run``."""
    if may_be_begun:
        await run_sync(_refuse_known, prepared, store)
    if accepted is not None:
        return await take_queued(prepared, store, accepted, callbacks(), in_line(retry_message))
    begun = await take(prepared, store, callbacks(), retry_message)
    return await _after_limits(prepared, store, begun, callbacks)


async def _after_limits(
    prepared: Prepared, store: Store, turn: Turn, callbacks: Callable[[], Callbacks]
) -> Turn:
    if turn.state != "parked":
        return turn
    from segue.turns.later_runs import after_limits

    return await after_limits(prepared, store, turn, callbacks)


async def _retry(
    prepared: Prepared,
    store: Store,
    callbacks: Callbacks,
    failed: Turn,
    on_run: Callable[[str], None] | None = None,
) -> Turn:
    """Another run of the message of a turn that failed."""
    from segue.turns.changes import check_retry

    next_run = await run_sync(prepare_retry, prepared, store, failed)
    if failed.message is not None:  # checked before a run is stored: the failure stays the last result
        cut = next_run.ask.cut
        await run_sync(check_retry, store, next_run.conversation.id, failed.message, cut)
    if on_run is not None:
        on_run(next_run.run)
    return await take(next_run, store, callbacks, failed.message, failed_run=failed.run)


def _refuse_known(prepared: Prepared, store: Store) -> None:
    """Raise ``KnownRun`` if the run is stored already."""
    if store.turn(prepared.run) is not None:
        raise KnownRun(prepared.run)


async def take(
    prepared: Prepared,
    store: Store,
    callbacks: Callbacks,
    retry_message: str | None = None,
    *,
    failed_run: str | None = None,
) -> Turn:
    """One run of the turn, to its end. ``retry_message``: the message to retry, if it is not a new one.

    ``failed_run``: the run of the same call that just failed. Raises ``KnownRun`` if the caller's key already
    has a run.
    """
    began_ns, row = time.monotonic_ns(), None

    def never_began(failure: Failure) -> Turn:
        return _never_began(prepared, failure, began_ns, row)

    if prepared.ask.fork:
        from segue.turns.changes import forked_if_busy

        notice = callbacks.notice
        prepared, retry_message = await run_sync(forked_if_busy, prepared, store, notice, retry_message)
    try:
        same_text = await run_sync(failed_with_same_text, prepared, store, retry_message)
        repeated = same_text.message if same_text is not None else retry_message
        prepared = await run_sync(with_words_of, prepared, store, repeated)
        retry = Retry(retry_message, same_text, failed_run)
        prepared, row = await run_sync(receive, prepared, store, retry)
        return await _in_turn(prepared, store, row, callbacks, retry, began_ns)
    except NotWaiting:
        return await _followed(prepared, store, callbacks)
    except KnownRun:  # the run is not ours to withdraw: whoever stored it waits with it
        raise
    except LeaseBusy as busy:
        turn = never_began(NOT_BEGUN if callbacks.cancel.asked else Failure("session_busy", str(busy)))
        return await run_sync(_withdraw, store, turn)
    except BaseException as error:
        with suppress(Exception):
            _withdraw(store, never_began(failure_of(error)))
        raise


async def take_queued(
    prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, retry: Retry
) -> Turn:
    """One run that waited in the queue, to its end. If this process is interrupted first, it waits on."""
    began_ns = time.monotonic_ns()
    try:
        if row.told is not None:  # one that was parked goes on
            retry = msgspec.structs.replace(retry, message=None)
        return await _in_turn(prepared, store, row, callbacks, retry, began_ns)
    except NotWaiting:
        if retry.in_line:  # its line sees what becomes of it
            return await run_sync(_as_stored, prepared, store)
        return await _followed(prepared, store, callbacks)
    except LeaseBusy as busy:
        failure = NOT_BEGUN if callbacks.cancel.asked else Failure("session_busy", str(busy))
        return await run_sync(withdraw, store, _never_began(prepared, failure, began_ns, row))
    except StoreAway as away:
        if row.via != QUEUED:  # no line has it
            with suppress(Exception):
                turn = _never_began(prepared, failure_of(away), began_ns, row)
                await run_sync(_withdraw, store, turn)
        raise
    except (WentOn, Forbidden) as error:
        is_law = isinstance(error, Forbidden)
        failure = failure_of(error) if is_law else Failure("rate_limited", str(error))
        return await run_sync(withdraw, store, _never_began(prepared, failure, began_ns, row))


def _withdraw(store: Store, turn: Turn) -> Turn:
    """Nobody but this process can know that it has given the run up. So it is withdrawn sooner or later."""
    return store.renewer.insist(partial(withdraw, store, turn))


def _as_stored(prepared: Prepared, store: Store) -> Turn:
    """The run as another process has left it."""
    from segue.turns.report import report_row

    row = store.turn(prepared.run)
    if row is None:
        raise Misuse(f"the run {prepared.run} was deleted")
    return row.told if row.told is not None else report_row(row, prepared.ask.conversation)


async def _followed(prepared: Prepared, store: Store, callbacks: Callbacks) -> Turn:
    """The turn of a run that another process has ended, or has begun: then it is followed to its end."""
    turn = await run_sync(_as_stored, prepared, store)
    if turn.state not in BEGUN:
        return turn
    from segue.turns.known_run import known_run

    return await known_run(prepared, store, turn.run, callbacks, math.inf)


def _never_began(prepared: Prepared, failure: Failure, began_ns: int, row: TurnRow | None) -> Turn:
    from segue.turns.report import report_withdrawn

    return report_withdrawn(prepared, failure, (time.monotonic_ns() - began_ns) // 1_000_000, row)


async def _in_turn(
    prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, retry: Retry, began_ns: int
) -> Turn:
    """Wait for the conversation's lease, settle what killed processes left, pass the gate, then answer the
    message. While only reservations of other turns stand in the way, wait without the lease."""
    until = math.inf if row.via == QUEUED else time.monotonic() + wait_s(prepared)
    told: set[str] = set()
    while True:
        async with _lease(prepared, store, row, callbacks, until) as lease:
            await _recover(prepared, store, lease, row.id, callbacks, until)
            try:
                admitted = await _admitted(prepared, store, row, lease, callbacks, retry, began_ns)
                if isinstance(admitted, Turn):
                    return admitted
                if isinstance(admitted, Admission):
                    before = await run_sync(before_parking, store, row) if row.told is not None else NOTHING
                    return await answer_message(LiveTurn(admitted, store, lease, callbacks, began_ns, before))
            except failures() as error:
                # No process of the attempt lives any more, but the next turn must know what the attempt did.
                with suppress(Exception), shield():
                    await _recover(prepared, store, lease, None, callbacks, until, failure_of(error))
                raise
        from segue.turns.reservation import wait_for_release

        if admitted.budget not in told:
            told.add(admitted.budget)
            callbacks.notice(f"waiting: {admitted.message}")
        await wait_for_release(prepared, store, row, callbacks.cancel, admitted, until)


async def _admitted(
    prepared: Prepared,
    store: Store,
    row: TurnRow,
    lease: Lease,
    callbacks: Callbacks,
    retry: Retry,
    began_ns: int,
) -> Admission | Turn | Reserved:
    """What the gate says: the run has begun; it is over before it began; or the budget that it waits for.

    If too much of a budget is spent, the user is asked, then the gate once more. Raises ``Forbidden`` for
    what a law forbids."""
    begin, adopting = await _beginning(prepared, store, callbacks, retry)
    request = AdmissionRequest(prepared=prepared, row=row, store=store, claim=lease.claim, begin=begin)
    door = Door.WAKES if row.told is not None else prepared.ask.door
    while True:
        said = await run_sync(admit, door, request)
        if isinstance(said, Admission):
            if adopting is not None:
                callbacks.notice(adopting)
            return said
        if said.waits is not None:
            return said.waits
        if said.law == "one writer":
            raise LeaseBusy(said.message)
        if said.reached is None:
            raise Forbidden(str(said))
        from segue.turns.budget_question import ReachedLimit

        waited_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        asking = ReachedLimit(prepared, store, row, said.reached, waited_ms)
        ended = await asking.settle(StoredTurn(prepared, store, row, lease, callbacks, began_ns))
        if ended is not None:
            return ended


async def answer_message(live: LiveTurn) -> Turn:
    """Decide, try, step down at most once; then settle, pin and reply."""
    for notice in (*live.prepared.notices, *live.prepared.granted.notices):
        live.say(notice)
    attempts: list[FinishedAttempt] = []
    try:
        decided = await restore(live, await run_sync(decide, live.prepared, live.store))
        decided, first = await try_once(live, decided, live.attempts + 1)
        attempts.append(first)
        await _note_end(live, first)
        if first.lower is not None and first.outcome.failure is not None and not live.cancelled:
            live.say(stepped_words(live.prepared.agent.facts.label, first.outcome.failure, first.lower))
            decided = await live.outage(partial(step_down, live.prepared, live.store, decided, first))
            decided, second = await try_once(live, decided, live.attempts + 2)
            attempts.append(second)
            await _note_end(live, second)
        from segue.turns.reply import settle  # loaded while the agent works

        return await settle(live, attempts)
    except StoreStillAway as away:
        from segue.turns.reply import unsettled

        return unsettled(live, attempts, away)
    finally:
        live.recorder.give_up()


async def _note_end(live: LiveTurn, attempt: FinishedAttempt) -> None:
    from segue.turns.settlement import note_end  # loaded while the agent works

    await live.outage(partial(note_end, live.store, attempt))


def _lease(
    prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, until: float
) -> AbstractAsyncContextManager[Lease]:
    """Hold the conversation for this turn alone; wait until its other turns have ended."""
    cancel, notice = callbacks.cancel, callbacks.notice
    return hold(
        store,
        lease_name(prepared.conversation.id),
        owner=row.owner,
        locks=prepared.segue_home.locks,
        until=until,
        on_wait=lambda holder: notice(f"waiting for another turn of {prepared.ask.conversation} ({holder})"),
        given_up=lambda: cancel.asked > 0,
        on_loss=cancel,
        on_beat=partial(_heed_cancel, store, row.id, cancel),
        waiting=WaitingTurn(store, row.id, row.owner),
        behind=Queue(prepared, store, row, notice).first,
    )


async def _recover(
    prepared: Prepared,
    store: Store,
    lease: Lease,
    own: str | None,
    callbacks: Callbacks,
    until: float,
    why: Failure | None = None,
) -> None:
    """Settle what a killed Segue left behind, if it left anything."""
    rows = await run_sync(store.unsettled, prepared.conversation.id)
    if any(row.id != own and row.state in BEGUN for row in rows):
        from segue.turns.recovery import recover

        await in_loop()
        await recover(prepared, store, lease, own, callbacks, until, why)


def _heed_cancel(store: Store, run: str, cancel: Cancel) -> None:
    """End the turn as by Ctrl-C if any process asked for that."""
    if not cancel.asked and store.cancel_asked(run):
        cancel()


async def _beginning(
    prepared: Prepared, store: Store, callbacks: Callbacks, retry: Retry
) -> tuple[Callable[[Prepared, TurnRow, Door, float | None], TurnRow], str | None]:
    """What the gate writes when the run begins, in its transaction; and what is said then, if the run adopts
    a session. The session is read before that transaction."""
    adoption, said = None, None
    if prepared.adopted is not None:
        from segue.turns.adopt import adopted_in_words, adoption_of

        await in_loop()
        adoption = await run_sync(adoption_of, prepared, store, prepared.adopted)
        said = adopted_in_words(prepared, adoption, prepared.adopted)

    def begin(now: Prepared, row: TurnRow, door: Door, reserved_usd: float | None) -> TurnRow:
        if NONE in now.ask.allow_tools:
            store.disallow_all(now.conversation.id, now.voice)
        if adoption is not None and prepared.adopted is not None:
            from segue.turns.adopt import adoption_of

            found = adoption if now.mark == prepared.mark else adoption_of(now, store, prepared.adopted)
            store.adopt(now.conversation.id, found, clock.now_ms())
        if prepared.mark != now.mark and (retry.message is None or row.told is not None):
            update_login(now, store, row)
        row = place(now, store, row, retry, door, reserved_usd)
        record_carried(now, store)
        return row

    return begin, said


def failure_of(error: BaseException) -> Failure:
    """The failure that is stored for a turn that ended with an exception."""
    if isinstance(error, Forbidden):
        return Failure("forbidden", str(error))
    if isinstance(error, NotInstalled):
        return Failure("not_installed", str(error))
    if isinstance(error, StoreAway):  # the CLI has no part in it
        return Failure("killed", str(error))
    if isinstance(error, Exception):
        return Failure("crashed", str(error) or type(error).__name__)
    return Failure("cancelled", "the turn was cancelled")


def _retries(prepared: Prepared) -> int:
    wanted = prepared.ask.retries
    return prepared.config.defaults.retries if wanted is None else wanted
