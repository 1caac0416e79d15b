"""Changes of a conversation: a turn begins, is given up; a message is edited, dropped, asked again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import msgspec

from segue.config.homes import Home
from segue.core.errors import InUse, Misuse
from segue.core.history import risen
from segue.core.hosts import Host
from segue.core.model import Message, Voice
from segue.core.turn import Turn
from segue.store.records import ChangeRow, Claim, Conversation, Settlement, TurnRow
from segue.store.store import Store
from segue.turns import orphans, retries
from segue.turns.forks import fork as fork
from segue.turns.lease import OVERTAKEN, Busy, alone, lease_name
from segue.turns.liveness import living
from segue.turns.options import Options
from segue.turns.prepared import Prepared
from segue.turns.remembered import NONE


def begin(
    prepared: Prepared, store: Store, row: TurnRow, lease: Claim, again: str | None, before: TurnRow | None
) -> TurnRow:
    """Under the lease: the message gets its place, or what was said after it goes if it is run again.

    ``before``: the run that had failed with the same words when these were heard. If nothing was said since,
    this is another run of that message.
    """
    if before is not None and retries.still_last(store, before):
        row, again = store.merge(row, before), before.message
    conversation = prepared.conversation.id
    if again is not None:
        may_rerun(store, conversation, again, prepared.ask.cut)
    waiting = (each for each in store.unsettled(conversation) if each.state == "queued")
    others = (each for each in waiting if each.id != row.id)
    gone = [each.id for each in others if living(store, each, prepared.host) == "dead"]
    if not store.place(row.id, gone, lease):
        raise Busy(OVERTAKEN)
    if again is not None:
        messages = store.messages(conversation)
        at = _index(messages, again)
        removed = [message.id for message in messages[at + 1 :]]
        moved = risen(messages, messages[: at + 1], _voices(messages)) if removed else []
        said = addressed(messages[at], prepared)
        store.rerun(conversation, said, row.id, removed, _now(), moved)
    return row


def may_rerun(store: Store, conversation: str, message: str, cut: bool) -> None:
    """``Misuse`` if more than the message's own answer follows it, unless that may be cut off."""
    messages = store.messages(conversation)
    if cut or message not in {each.id for each in messages}:
        return
    at = _index(messages, message)
    after = messages[at + 1 :]
    if after and after[0].sender == "assistant":  # its own, though a fork does not know by which run
        del after[0]
    answers = {run.answer for run in store.runs_of([message]).get(message, [])}
    others = [each for each in after if each.id not in answers]
    if others:
        follow = "1 message follows" if len(others) == 1 else f"{len(others):,} messages follow"
        raise Misuse(
            f"{follow} #{at + 1}, and would be dropped: add --cut, or retry it in a fork (segue fork)"
        )


def addressed(message: Message, prepared: Prepared) -> Message:
    """The message as it is said now: to whom, and under which account."""
    return msgspec.structs.replace(
        message,
        voice=prepared.voice,
        account=prepared.account_name,
        under=(prepared.mark,),
        blank=prepared.ask.blank,
    )


def given_up(store: Store, turn: Turn) -> None:
    """The turn never began: its message is kept, but nobody is told of it until it is run again.

    One that had begun is left as it is: the next turn looks into what it did.
    """
    row = store.turn(turn.run)
    if row is not None and row.state == "queued":
        ended_ms = row.started_ms + turn.duration_ms
        withdrawn = msgspec.structs.replace(row, state="withdrawn", told=turn, ended_ms=ended_ms)
        store.settle(Settlement(turn=withdrawn))


def edit(store: Store, conversation: Conversation, message: str, text: str, *, cut: bool) -> list[str]:
    """Change one message; with ``cut`` what follows is dropped too. The ids of what was dropped."""
    if not text.strip():
        raise Misuse("the new text is empty; to drop a message use segue truncate")
    messages = store.messages(conversation.id)
    at = _index(messages, message)
    changed = msgspec.structs.replace(messages[at], revision=messages[at].revision + 1)
    after = [*messages[:at], changed, *([] if cut else messages[at + 1 :])]
    removed = [each.id for each in messages[at + 1 :]] if cut else []
    moved = risen(messages, after, _voices(messages))
    store.edit(message, text, _now(), removed, moved)
    return removed


def truncate(store: Store, conversation: Conversation, message: str) -> list[str]:
    """Drop a message and all after it. The ids of what was dropped."""
    messages = store.messages(conversation.id)
    at = _index(messages, message)
    removed = [each.id for each in messages[at:]]
    store.truncate(conversation.id, removed, _now(), risen(messages, messages[:at], _voices(messages)))
    return removed


def undo(store: Store, conversation: Conversation) -> ChangeRow:
    """Take back the last edit, truncation or retry."""
    done = store.undo(conversation.id, _now(), lambda a, b: risen(a, b, _voices([*a, *b])))
    if done is None:
        raise Misuse(
            f"{conversation.key} has no change to undo: something was said since the last one, or"
            " there is none; segue fork continues from an earlier message"
        )
    return done


def known(store: Store, key: str) -> Conversation:
    """The conversation of that key, or ``Misuse`` with what there is."""
    found = store.conversation(key)
    if found is not None:
        return found
    from difflib import get_close_matches

    close = get_close_matches(key, [each.conversation.key for each in store.conversations()], 1)
    hint = f"did you mean {close[0]}?" if close else "segue ls shows those there are"
    raise Misuse(f"there is no conversation {key}; {hint}")


def to_whom(message: Message, options: Options) -> Options:
    """The options of a retry: to whom it was said before, unless told otherwise."""
    same: Options = {"role": message.voice.role or NONE}
    if options.get("agent") is None and options.get("account") is None:
        same |= {"agent": message.voice.agent, "account": message.account or NONE}
    given = {name: value for name, value in options.items() if value is not None}
    return cast("Options", {**same, **given})


@asynccontextmanager
async def changing(
    store: Store, conversation: Conversation, home: Home, host: Host, wait_s: float
) -> AsyncIterator[None]:
    """Hold the conversation while it is changed. Raises ``Misuse`` when a turn of it runs."""
    try:
        name = lease_name(conversation.id)
        async with alone(store, name, host=host, locks=home.locks, wait_s=wait_s, adopts=True):
            if orphans.runs(store, conversation.id, host):
                raise Busy("one whose Segue was killed; segue run reads it to its end")
            yield
    except Busy as busy:
        raise InUse(f"{conversation.key} cannot be changed now: {busy}") from None


def find(store: Store, conversation: Conversation, named: str | None, sender: str | None = None) -> Message:
    """The message a user means: its id, ``#n``, the id of a run of it, or the last one (of ``sender``)."""
    messages = store.messages(conversation.id)
    if named is None:
        return _last(store, conversation, [each for each in messages if sender in (None, each.sender)])
    number = named.removeprefix("#")
    if number.isdecimal() and 1 <= int(number) <= len(messages):
        found = messages[int(number) - 1]
    else:
        run = store.turn(named)
        wanted = run.message if run is not None and run.conversation == conversation.id else named
        said = [*messages, *_unheard(store, conversation.id)]
        matching = [message for message in said if message.id == wanted]
        if not matching:
            last = f"its messages are #1 to #{len(messages)}" if messages else "it has none"
            raise Misuse(f'{conversation.key} has no message "{named}"; {last}')
        found = matching[0]
    if sender is not None and found.sender != sender:
        raise Misuse(f"{named} was said by the {found.sender}; name a message of the {sender}")
    return found


def _last(store: Store, conversation: Conversation, placed: list[Message]) -> Message:
    """The one that was said or run last, withdrawn ones included."""
    last = [*placed[-1:], *_unheard(store, conversation.id)]
    if not last:
        raise Misuse(f"{conversation.key} has no message yet")
    runs = store.runs_of([message.id for message in last])
    return max(last, key=lambda message: runs[message.id][-1].started_ms if message.id in runs else 0)


def _unheard(store: Store, conversation: str) -> list[Message]:
    """Messages that were withdrawn: kept, but without a place."""
    return [
        Message(id=row.message, sender="user", voice=row.voice, account=row.account)
        for row in store.unplaced(conversation)
        if row.state == "withdrawn"
    ]


def _voices(messages: Sequence[Message]) -> list[Voice]:
    return sorted({message.voice for message in messages})


def _index(messages: Sequence[Message], message: str) -> int:
    for at, each in enumerate(messages):
        if each.id == message:
            return at
    raise Misuse("the message is not in the conversation any more")


def _now() -> int:
    return time.time_ns() // 1_000_000
