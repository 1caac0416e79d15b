"""The message of a turn: stored when received, placed when the turn begins, withdrawn if it never does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from segue.core.errors import Misuse
from segue.core.laws import Door
from segue.core.model import Message
from segue.core.question import wrote_since
from segue.core.turn import Turn
from segue.core.view import risen
from segue.store.questions import QuestionRow
from segue.store.records import QUEUED, Conversation, NotWaiting, Receipt, Settlement, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import this_process
from segue.turns import retries
from segue.turns.marks import marks_of, with_words_of
from segue.turns.prepare import Prepared, fixed_of
from segue.turns.request import NONE, QueuedRequest, TurnRequest, body_of


class WentOn(Misuse):
    """Others spoke while the run was parked, so it cannot continue where it was."""


class Retry(msgspec.Struct, frozen=True):
    """What a turn retries, if anything."""

    message: str | None = None
    """The message that the caller wants to retry."""
    same_text: TurnRow | None = None
    """The last run, if it failed with the same text when this message was received."""
    failed_run: str | None = None
    """The run of the same call that just failed."""
    in_line: bool = False
    """It is the first of its line: it does not begin if another queued run comes first by then."""


def in_line(message: str | None) -> Retry:
    """For the first run of a line. ``message``: the one that it retries."""
    return Retry(message, in_line=True)


def receive(prepared: Prepared, store: Store, retry: Retry) -> tuple[Prepared, TurnRow]:
    """Store the message before anything else happens; it gets its place when the turn begins.

    Raises ``KnownRun`` if the caller's key already has a run.
    """
    now_ms = clock.now_ms()
    message = _message(prepared, retry.message or clock.new_id(now_ms))
    receipt = _receipt(prepared.ask, retry)
    row = _turn_row(prepared, message, now_ms, keyed=receipt is not None)
    if retry.message is not None:
        runs = store.runs_of([retry.message]).get(retry.message)
        row = msgspec.structs.replace(row, retry_of=runs[-1].id if runs else None)
        store.add_retry(row, receipt, retry.failed_run)
        return prepared, row
    conversation = _with_first_options(prepared, row)
    stored = store.receive(conversation, message, prepared.ask.prompt, row, receipt, prepared.files)
    return (
        msgspec.structs.replace(prepared, conversation=stored),
        msgspec.structs.replace(row, conversation=stored.id),
    )


def enqueue(
    prepared: Prepared,
    store: Store,
    retry_message: str | None = None,
    not_before_ms: int | None = None,
    answers: QuestionRow | None = None,
    body: str | None = None,
) -> TurnRow:
    """Store the message and its run at the end of the conversation's line, with everything it needs to start
    later. ``answers``: the question that the message answers. ``body``: a digest of what was ordered, if it
    is not this request. Raises ``KnownRun`` if the caller's key already has a run."""
    now_ms, retry = clock.now_ms(), Retry(retry_message)
    if not_before_ms is not None and not_before_ms <= store.clock_ms():
        not_before_ms = None
    prepared = with_words_of(prepared, store, retry_message)
    message = _message(prepared, retry_message or clock.new_id(now_ms))
    receipt = _receipt(prepared.ask, retry, body)
    row = msgspec.structs.replace(_turn_row(prepared, message, now_ms, keyed=True), via=QUEUED)
    if prepared.ask.door is Door.RUN:
        door = Door.QUEUE if not_before_ms is None else Door.SCHEDULED
        prepared = msgspec.structs.replace(prepared, ask=msgspec.structs.replace(prepared.ask, door=door))
    request = stored_request(prepared, retry_message)
    if retry_message is not None:
        runs = store.runs_of([retry_message]).get(retry_message)
        row = msgspec.structs.replace(row, retry_of=runs[-1].id if runs else None)
        store.enqueue_retry(row, request, receipt=receipt, not_before_ms=not_before_ms)
        return row
    conversation = _with_first_options(prepared, row)
    stored = store.enqueue(
        conversation,
        message,
        prepared.ask.prompt,
        row,
        request,
        receipt=receipt,
        not_before_ms=not_before_ms,
        files=prepared.files,
        answers=answers,
    )
    return msgspec.structs.replace(row, conversation=stored.id)


def stored_request(prepared: Prepared, retry: str | None) -> str:
    """What is stored with a run that waits, as JSON. ``retry``: the message to retry, if it is no new one."""
    return msgspec.json.encode(QueuedRequest(ask=_fixed(prepared), retry=retry)).decode()


def _fixed(prepared: Prepared) -> TurnRequest:
    """The request with all that is remembered and configured now: what comes later does not change it."""
    return msgspec.structs.replace(
        prepared.ask,
        agent=prepared.agent.facts.name,
        account=prepared.account or NONE,
        model=prepared.model or NONE,
        role=prepared.role or NONE,
        cwd=str(prepared.request.cwd),
        fork=False,
        fixed=fixed_of(prepared),
    )


def _with_first_options(prepared: Prepared, row: TurnRow) -> Conversation:
    """A new conversation is stored with its first options, in case this turn never ends."""
    return msgspec.structs.replace(
        prepared.conversation,
        agent=row.voice.agent,
        account=row.account,
        model=row.model,
        role=row.voice.role,
        cwd=row.cwd,
    )


def update_login(prepared: Prepared, store: Store, row: TurnRow) -> None:
    """The login has changed since the message was received."""
    store.address(_message(prepared, row.message))


def place(
    prepared: Prepared, store: Store, row: TurnRow, retry: Retry, door: Door, reserved_usd: float | None
) -> TurnRow:
    """Begin the run: the message gets its place; if it is retried, what was said after it is dropped. Within
    the gate's transaction, under the lease.

    If nothing was said since a run failed with the same text, this is a retry of that message.
    """
    message = retry.message
    if retry.in_line and any(each.via == QUEUED for each in store.ahead(row.id)):
        raise NotWaiting(row.id)  # one that a killed process had taken is back in line
    if retry.same_text is not None and retries.still_last(store, retry.same_text):
        row, message = store.merge(row, retry.same_text), retry.same_text.message
    if row.told is not None:
        _check_still_last(store, row)
    if message is not None:
        from segue.turns.changes import check_retry

        check_retry(store, prepared.conversation.id, message, prepared.ask.cut)
    unsettled = store.unsettled(prepared.conversation.id)
    store.place(
        row.id,
        _dead(prepared, store, row, unsettled),
        door=door,
        reserved_usd=reserved_usd,
        counts_for=prepared.ask.counts_for,
    )
    if row.via != QUEUED and row.told is None and prepared.ask.flow is None:
        _ask_parked(store, unsettled)
    if row.told is not None and row.message not in {each.id for each in store.messages(row.conversation)}:
        raise WentOn("its message was dropped while it was parked")
    if message is not None:
        _drop_after(prepared, store, row, message)
    return row


def _check_still_last(store: Store, row: TurnRow) -> None:
    """A run that was parked after its tools had run continues only where it was."""
    messages = [each.id for each in store.messages(row.conversation)]
    if row.message in messages[:-1]:
        number = messages.index(row.message) + 1
        raise WentOn(f"the conversation went on while #{number} was parked; retry it with --cut")


def withdraw(store: Store, turn: Turn, *, hold: bool = False) -> Turn:
    """The turn never began: its message is kept, but no agent sees it until it is retried. Returns the turn
    as it is stored: one that was parked after its tools had run is not withdrawn, but ends.

    A turn that had begun is left as it is: the next turn settles it. ``hold``: as in ``Settlement``.
    """
    row = store.turn(turn.run)
    if row is None or row.state not in ("queued", "parked"):
        return turn
    ended = msgspec.structs.replace(turn, state="withdrawn", status="failed")
    if row.told is not None:
        from segue.turns.report import added_up

        ended = added_up(row.told, ended)
        if ended.tools_run != 0:
            by_user = turn.failure is not None and turn.failure.kind == "cancelled"
            how: Literal["cancelled", "failed"] = "cancelled" if by_user else "failed"
            ended = msgspec.structs.replace(ended, state=how, status=how)
    ended_ms = row.started_ms + turn.duration_ms if row.told is None else clock.now_ms()
    settled = msgspec.structs.replace(row, state=ended.state, told=ended, ended_ms=ended_ms)
    store.settle(Settlement(turn=settled, hold=hold))
    return ended


def _turn_row(prepared: Prepared, message: Message, now_ms: int, *, keyed: bool) -> TurnRow:
    return TurnRow(
        id=prepared.run,
        conversation=prepared.conversation.id,
        message=message.id,
        voice=prepared.voice,
        account=prepared.account_name,
        model=prepared.model,
        cwd=str(prepared.request.cwd),
        host=prepared.host.name,
        owner=this_process(prepared.host),
        started_ms=now_ms,
        via="" if keyed else prepared.ask.via,
        flow=prepared.ask.flow,
    )


def _receipt(ask: TurnRequest, retry: Retry, body: str | None = None) -> Receipt | None:
    if ask.key is None:
        return None
    return Receipt(key=ask.key, body=body or body_of(ask, retry.message), failed=retry.failed_run)


def _message(prepared: Prepared, message_id: str) -> Message:
    return Message(
        id=message_id,
        sender="user",
        voice=prepared.voice,
        account=prepared.account_name,
        under=marks_of(prepared),
        blank=prepared.ask.blank,
        size=len(prepared.ask.prompt.encode()),
    )


def _ask_parked(store: Store, unsettled: Sequence[TurnRow]) -> None:
    """The user writes while runs are parked by a limit: what becomes of them, he has to say."""
    parked = [each for each in unsettled if each.state == "parked" and each.told is not None]
    if parked:
        asked = wrote_since(clock.new_id(), clock.now_ms())
        store.ask_parked(parked[0].conversation, asked.id, msgspec.json.encode(asked).decode())


def _dead(prepared: Prepared, store: Store, row: TurnRow, unsettled: Sequence[TurnRow]) -> list[str]:
    """The runs whose process died while they waited."""
    others = [each for each in unsettled if each.state == "queued" and each.id != row.id]
    if not others:
        return []
    from segue.turns.liveness import liveness_of

    return [each.id for each in others if liveness_of(store, each, prepared.host) == "dead"]


def _drop_after(prepared: Prepared, store: Store, row: TurnRow, message: str) -> None:
    """Drop what was said after the message, and address the message as this turn does."""
    from segue.turns.changes import message_index, voices_of

    conversation = prepared.conversation.id
    messages = store.messages(conversation)
    at = message_index(messages, message)
    removed = [each.id for each in messages[at + 1 :]]
    moved = risen(messages, messages[: at + 1], voices_of(messages)) if removed else []
    addressed = msgspec.structs.replace(
        messages[at],
        voice=prepared.voice,
        account=prepared.account_name,
        under=marks_of(prepared),
        blank=prepared.ask.blank,
    )
    store.rerun(conversation, addressed, row.id, removed, clock.now_ms(), moved)
