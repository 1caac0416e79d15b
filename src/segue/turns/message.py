"""The message of a turn: stored when it is heard, placed when the turn begins, withdrawn if it never does."""

from __future__ import annotations

import msgspec

from segue.core.model import Message
from segue.core.turn import Turn
from segue.core.view import risen
from segue.store.leases import OVERTAKEN, LeaseBusy
from segue.store.records import Claim, Receipt, Settlement, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import this_process
from segue.turns import retries
from segue.turns.changes import may_rerun, message_index, voices_of
from segue.turns.liveness import liveness_of
from segue.turns.prepare import Prepared
from segue.turns.request import TurnRequest, body_of


class Again(msgspec.Struct, frozen=True):
    """What a turn runs once more, if anything."""

    message: str | None = None
    """The message that the caller wants to have answered again."""
    failed: TurnRow | None = None
    """The run that had failed with the same words when these were heard."""
    tried: str | None = None
    """The run of the same call that failed just before."""


def hear(prepared: Prepared, store: Store, again: Again) -> tuple[Prepared, TurnRow]:
    """Store the message before anything else happens; it gets its place once the turn begins.

    Raises ``KnownRun`` where the caller's key has a run already.
    """
    now_ms = clock.now_ms()
    message = _message(prepared, again.message or clock.new_id(now_ms))
    receipt = _receipt(prepared.ask, again)
    row = _turn_row(prepared, message, now_ms, keyed=receipt is not None)
    if again.message is not None:
        runs = store.runs_of([again.message]).get(again.message)
        row = msgspec.structs.replace(row, retry_of=runs[-1].id if runs else None)
        store.add_retry(row, receipt)
        return prepared, row
    # A conversation that is new is remembered with what it began with, should this turn never end.
    conversation = msgspec.structs.replace(
        prepared.conversation,
        agent=row.voice.agent,
        account=row.account,
        model=row.model,
        role=row.voice.role,
        cwd=row.cwd,
    )
    stored = store.receive(conversation, message, prepared.ask.prompt, row, receipt)
    return (
        msgspec.structs.replace(prepared, conversation=stored),
        msgspec.structs.replace(row, conversation=stored.id),
    )


def readdress(prepared: Prepared, store: Store, row: TurnRow) -> None:
    """The message is said under another login than when it was heard."""
    store.address(_message(prepared, row.message))


def place(prepared: Prepared, store: Store, row: TurnRow, lease: Claim, again: Again) -> TurnRow:
    """Under the lease: the message gets its place, or what was said after it goes if it is run again.

    If nothing was said since a run failed with the same words, this is another run of that message.
    """
    message = again.message
    with store.fenced(lease) as ours:
        if not ours:
            raise LeaseBusy(OVERTAKEN)
        if again.failed is not None and retries.still_last(store, again.failed):
            row, message = store.merge(row, again.failed), again.failed.message
        if message is not None:
            may_rerun(store, prepared.conversation.id, message, prepared.ask.cut)
        store.place(row.id, _dead(prepared, store, row))
        if message is not None:
            _rerun(prepared, store, row, message)
    return row


def withdraw(store: Store, turn: Turn) -> None:
    """The turn never began: its message is kept, but nobody is told of it until it is run again.

    One that had begun is left as it is: the next turn looks into what it did.
    """
    row = store.turn(turn.run)
    if row is not None and row.state == "queued":
        ended_ms = row.started_ms + turn.duration_ms
        withdrawn = msgspec.structs.replace(row, state="withdrawn", told=turn, ended_ms=ended_ms)
        store.settle(Settlement(turn=withdrawn))


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
    )


def _receipt(ask: TurnRequest, again: Again) -> Receipt | None:
    if ask.key is None:
        return None
    return Receipt(key=ask.key, body=body_of(ask, again.message), failed=again.tried)


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


def _dead(prepared: Prepared, store: Store, row: TurnRow) -> list[str]:
    """The runs that waited before this one and whose process has died."""
    waiting = (each for each in store.unsettled(prepared.conversation.id) if each.state == "queued")
    others = (each for each in waiting if each.id != row.id)
    return [each.id for each in others if liveness_of(store, each, prepared.host) == "dead"]


def _rerun(prepared: Prepared, store: Store, row: TurnRow, message: str) -> None:
    """What was said after the message goes, and the message is said as this turn says it."""
    conversation = prepared.conversation.id
    messages = store.messages(conversation)
    at = message_index(messages, message)
    removed = [each.id for each in messages[at + 1 :]]
    moved = risen(messages, messages[: at + 1], voices_of(messages)) if removed else []
    addressed = msgspec.structs.replace(
        messages[at],
        voice=prepared.voice,
        account=prepared.account_name,
        under=(prepared.mark,),
        blank=prepared.ask.blank,
    )
    store.rerun(conversation, addressed, row.id, removed, clock.now_ms(), moved)
