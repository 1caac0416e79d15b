"""The way of a turn.

message ─▶ store ─▶ lease ─▶ decide ─▶ compose ─▶ launch ─▶ stream ─▶ settle ─▶ pin ─▶ reply
                               ▲                                        │
                               └──────────── step down (once) ──────────┘
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

import anyio
from anyio.to_thread import run_sync

from segue.core.errors import NotInstalled
from segue.core.outcome import Failure
from segue.core.turn import Turn
from segue.runner.attempt import Answerer, Cancel, Guarded, Listener, Replies
from segue.store.leases import Lease, LeaseBusy, hold, lease_name
from segue.store.records import KnownRun, TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import WaitingTurn
from segue.turns import retries
from segue.turns.attempts import decide, restore, step_down, stepped_words, try_once
from segue.turns.changes import forked_if_busy, may_rerun
from segue.turns.live_turn import Callbacks, LiveTurn
from segue.turns.message import Again, hear, place, readdress, withdraw
from segue.turns.prepare import Prepared, as_of_now, once_more
from segue.turns.report import report_withdrawn
from segue.turns.settlement import FinishedAttempt, note_end
from segue.turns.store_outage import StoreStillAway

WAIT_S = 600.0
"""How long a turn waits for another one of its conversation, unless told otherwise."""


async def run(
    prepared: Prepared,
    store: Store,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
    on_notice: Callable[[str], None] | None = None,
    again: str | None = None,
) -> Turn:
    """Run the turn, and retry it as often as was asked for while its failure looks temporary.

    ``again``: the message to answer once more, instead of a new one.
    """
    cancel, notice = cancel or Cancel(), Guarded("on_notice", on_notice)

    def callbacks() -> Callbacks:
        return Callbacks(on_event, Replies(answer), cancel, notice)

    async def once_again(failed: Turn) -> Turn:
        wanted = await run_sync(once_more, prepared, store, failed)
        if failed.message is not None:  # refused before a run is made: the failure stays the last result
            cut = wanted.ask.cut
            await run_sync(may_rerun, store, wanted.conversation.id, failed.message, cut)
        return await take(wanted, store, callbacks(), failed.message, tried=failed.run)

    wanted = prepared.ask.retries
    count = prepared.config.defaults.retries if wanted is None else wanted
    try:
        first = await take(prepared, store, callbacks(), again)
    except KnownRun as known:
        from segue.turns.known_run import known_run

        return await known_run(prepared, store, known.run, callbacks(), _wait_s(prepared))
    return await retries.persist(first, count, once_again, given_up=lambda: cancel.asked > 0, notice=notice)


async def take(
    prepared: Prepared,
    store: Store,
    callbacks: Callbacks,
    message: str | None = None,
    *,
    tried: str | None = None,
) -> Turn:
    """One run of the turn, to its end. ``message``: the one to answer once more.

    ``tried``: the run of the same call that failed just before. Raises ``KnownRun`` where the caller's key
    has a run already.
    """
    began_ns, row = time.monotonic_ns(), None

    def never_began(failure: Failure) -> Turn:
        duration_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        return report_withdrawn(prepared, failure, duration_ms, row)

    if prepared.ask.fork:
        prepared, message = await run_sync(forked_if_busy, prepared, store, callbacks.notice, message)
    try:
        failed = await run_sync(retries.repeated, prepared, store) if message is None else None
        again = Again(message, failed, tried)
        prepared, row = await run_sync(hear, prepared, store, again)
        return await _in_turn(prepared, store, row, callbacks, again, began_ns)
    except LeaseBusy as busy:
        unheard = Failure("cancelled", "the turn was cancelled before it began")
        turn = never_began(unheard if callbacks.cancel.asked else Failure("session_busy", str(busy)))
        await run_sync(withdraw, store, turn)
        return turn
    except BaseException as error:
        with suppress(Exception):
            withdraw(store, never_began(_failure(error)))
        raise


async def _in_turn(
    prepared: Prepared, store: Store, row: TurnRow, callbacks: Callbacks, again: Again, began_ns: int
) -> Turn:
    """Wait for the conversation's lease, settle what others left there, then answer the message."""
    until = time.monotonic() + _wait_s(prepared)
    async with _lease(prepared, store, row, callbacks, until) as lease:
        await _recover(prepared, store, lease, row.id, callbacks, until)
        try:
            prepared, row = await _begin(prepared, store, row, lease, callbacks, again)
            return await answer_message(LiveTurn(prepared, store, row, lease, callbacks, began_ns))
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            # No process of the attempt is alive any more, but the next turn must know what it did.
            with suppress(Exception), anyio.CancelScope(shield=True):
                await _recover(prepared, store, lease, None, callbacks, until, _failure(error))
            raise


async def answer_message(live: LiveTurn) -> Turn:
    """Decide, try, step down at most once; then settle, pin and reply."""
    for notice in live.prepared.granted.notices:
        live.say(notice)
    attempts: list[FinishedAttempt] = []
    try:
        decided = await restore(live, await run_sync(decide, live.prepared, live.store))
        decided, first = await try_once(live, decided, 1)
        attempts.append(first)
        await live.outage(partial(note_end, live.store, first))
        if first.lower is not None and first.outcome.failure is not None and not live.cancelled:
            live.say(stepped_words(live.prepared.agent.facts.label, first.outcome.failure, first.lower))
            decided = await live.outage(partial(step_down, live.prepared, live.store, decided, first))
            decided, second = await try_once(live, decided, 2)
            attempts.append(second)
            await live.outage(partial(note_end, live.store, second))
        from segue.turns.reply import settle  # loaded while the agent works

        return await settle(live, attempts)
    except StoreStillAway as away:
        from segue.turns.reply import unsettled

        return unsettled(live, attempts, away)
    finally:
        live.recorder.give_up()


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
    if any(row.id != own and row.state == "running" for row in rows):
        from segue.turns.recovery import recover

        await recover(prepared, store, lease, own, callbacks, until, why)


def _heed_cancel(store: Store, run: str, cancel: Cancel) -> None:
    """End the turn as by Ctrl-C if anybody asked for that, in whatever process."""
    if not cancel.asked and store.cancel_asked(run):
        cancel()


async def _begin(
    prepared: Prepared, store: Store, row: TurnRow, lease: Lease, callbacks: Callbacks, again: Again
) -> tuple[Prepared, TurnRow]:
    """Look at everything again now that the turn may begin, and put its message in its place."""
    heard, prepared = prepared, await run_sync(as_of_now, prepared, store)
    if prepared.adopted is not None:
        from segue.turns.adopt import adopt_session

        callbacks.notice(await run_sync(adopt_session, prepared, store, prepared.adopted))
    if heard.mark != prepared.mark and again.message is None:
        await run_sync(readdress, prepared, store, row)
    return prepared, await run_sync(place, prepared, store, row, lease.claim, again)


def _failure(error: BaseException) -> Failure:
    """The failure that the log shows for a turn that an exception ended."""
    if isinstance(error, NotInstalled):
        return Failure("not_installed", str(error))
    if isinstance(error, Exception):
        return Failure("crashed", str(error) or type(error).__name__)
    return Failure("cancelled", "the turn was cancelled")


def _wait_s(prepared: Prepared) -> float:
    for wanted in (prepared.ask.wait_s, prepared.config.defaults.wait):
        if wanted is not None:
            return wanted
    return WAIT_S
