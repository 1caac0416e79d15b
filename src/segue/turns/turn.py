"""The way of a turn.

message ─▶ store ─▶ lease ─▶ decide ─▶ compose ─▶ launch ─▶ stream ─▶ settle ─▶ pin ─▶ reply
                               ▲                                        │
                               └──────────── step down (once) ──────────┘
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import anyio
import msgspec
from anyio.to_thread import run_sync

from segue.core.errors import NotInstalled
from segue.core.model import Message
from segue.core.outcome import Failure
from segue.core.turn import Turn
from segue.runner.attempt import Answerer, Cancel, Guarded, Listener, Replies
from segue.store.leases import LeaseBusy, WaitingTurn, hold, lease_name
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import this_process
from segue.turns import changes, recovery, retries
from segue.turns.attempts import Attempts, Callbacks
from segue.turns.changes import forked_if_busy
from segue.turns.prepare import Prepared, as_of_now, once_more
from segue.turns.report import told_without

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
    """Take the turn, and as often again as is wanted while it fails in a way that may pass."""
    cancel, notice = cancel or Cancel(), Guarded("on_notice", on_notice)

    async def once(wanted: Prepared, message: str | None) -> Turn:
        return await take(
            wanted, store, on_event=on_event, answer=answer, cancel=cancel, on_notice=notice, again=message
        )

    async def once_again(failed: Turn) -> Turn:
        wanted = await run_sync(once_more, prepared, store, failed)
        if failed.message is not None:  # said before a run is made of it: the failure stays the last word
            cut = wanted.ask.cut
            await run_sync(changes.may_rerun, store, wanted.conversation.id, failed.message, cut)
        return await once(wanted, failed.message)

    wanted = prepared.ask.retries
    count = prepared.config.defaults.retries if wanted is None else wanted
    first = await once(prepared, again)
    return await retries.persist(first, count, once_again, given_up=lambda: cancel.asked > 0, notice=notice)


async def take(
    prepared: Prepared,
    store: Store,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
    on_notice: Guarded[str] | None = None,
    again: str | None = None,
) -> Turn:
    """One run of the turn, to its end. ``again``: the message to answer once more."""
    began, cancel = time.monotonic_ns(), cancel or Cancel()
    company = Callbacks(on_event, Replies(answer), cancel, on_notice or Guarded("on_notice", None))
    if prepared.ask.fork:
        prepared, again = await run_sync(forked_if_busy, prepared, store, company.notice, again)
    row: TurnRow | None = None

    def without(failure: Failure) -> Turn:
        return told_without(prepared, failure, (time.monotonic_ns() - began) // 1_000_000, row)

    try:
        before = await run_sync(retries.repeated, prepared, store) if again is None else None
        prepared, heard = await run_sync(_heard, prepared, store, again)
        row = heard
        return await _in_turn(prepared, store, heard, company, began, again, before)
    except LeaseBusy as busy:
        unheard = Failure("cancelled", "the turn was cancelled before it began")
        turn = without(unheard if cancel.asked else Failure("session_busy", str(busy)))
        await run_sync(changes.given_up, store, turn)
        return turn
    except BaseException as error:
        with suppress(Exception):
            changes.given_up(store, without(_failure(error)))
        raise


async def _in_turn(
    prepared: Prepared,
    store: Store,
    row: TurnRow,
    company: Callbacks,
    began: int,
    again: str | None,
    before: TurnRow | None,
) -> Turn:
    """Wait for the conversation, settle what others left there, then do it.

    ``before``: the run that had failed with the same words when these were heard.
    """
    until, cancel = time.monotonic() + _wait_s(prepared), company.cancel
    async with hold(
        store,
        lease_name(prepared.conversation.id),
        owner=row.owner,
        locks=prepared.segue_home.locks,
        until=until,
        on_wait=lambda holder: company.notice(f"waiting for another turn of {prepared.ask.key} ({holder})"),
        given_up=lambda: cancel.asked > 0,
        on_loss=cancel,
        waiting=WaitingTurn(store, row.id, row.owner),
    ) as lease:
        await recovery.recover(prepared, store, lease, row.id, company, until)
        heard, prepared = prepared, await run_sync(as_of_now, prepared, store)
        try:
            if prepared.adopted is not None:
                from segue.turns.adopt import adopt_session

                company.notice(await run_sync(adopt_session, prepared, store, prepared.adopted))
            if heard.mark != prepared.mark and again is None:
                await run_sync(store.address, _message(prepared, row.message))
            row = await run_sync(changes.begin, prepared, store, row, lease.claim, again, before)
            return await Attempts(prepared, store, row, lease, company).run(began)
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            # Nobody of the attempt lives any more, but what it did must be known to the next turn.
            with suppress(Exception), anyio.CancelScope(shield=True):
                await recovery.recover(prepared, store, lease, None, company, until, _failure(error))
            raise


def _heard(prepared: Prepared, store: Store, again: str | None) -> tuple[Prepared, TurnRow]:
    """Store the message before anything else happens; it gets its place once the turn begins."""
    now_ms = clock.now_ms()
    voice, account = prepared.voice, prepared.account_name
    message = _message(prepared, again or clock.new_id(now_ms))
    row = TurnRow(
        id=prepared.run,
        conversation=prepared.conversation.id,
        message=message.id,
        voice=voice,
        account=account,
        model=prepared.model,
        cwd=str(prepared.request.cwd),
        host=prepared.host.name,
        owner=this_process(prepared.host),
        started_ms=now_ms,
        via=prepared.ask.via,
    )
    if again is not None:
        runs = store.runs_of([again]).get(again)
        row = msgspec.structs.replace(row, retry_of=runs[-1].id if runs else None)
        store.again(row)
        return prepared, row
    # A conversation that is new is remembered with what it began with, should this turn never end.
    conversation = msgspec.structs.replace(
        prepared.conversation,
        agent=voice.agent,
        account=account,
        model=prepared.model,
        role=voice.role,
        cwd=row.cwd,
    )
    stored = store.hear(conversation, message, prepared.ask.prompt, row)
    return (
        msgspec.structs.replace(prepared, conversation=stored),
        msgspec.structs.replace(row, conversation=stored.id),
    )


def _message(prepared: Prepared, message_id: str) -> Message:
    return Message(
        id=message_id,
        sender="user",
        voice=prepared.voice,
        account=prepared.account_name,
        under=(prepared.mark,),
        blank=prepared.ask.blank,
        size=len(prepared.ask.prompt.encode()),
    )


def _failure(error: BaseException) -> Failure:
    """What the log says of a turn that an error broke off."""
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
