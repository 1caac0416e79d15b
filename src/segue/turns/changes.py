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
from segue.core.model import Message, Voice
from segue.core.turn import Turn
from segue.store.records import Conversation, Settlement, TurnRow
from segue.store.store import Store
from segue.turns import orphans
from segue.turns.forks import fork as fork
from segue.turns.lease import Busy, alone, lease_name
from segue.turns.options import Options
from segue.turns.owners import lives
from segue.turns.prepared import Prepared
from segue.turns.remembered import NONE

FORGOTTEN_MS = 24 * 3_600_000
"""After so long a turn that waits on another host is not believed to wait any more."""


def begin(prepared: Prepared, store: Store, row: TurnRow, again: str | None) -> None:
    """Under the lease: messages whose turn died while it waited get their place, then this one.

    Not where a message is run again: what stands after it is dropped, and those have not been seen yet.
    """
    conversation = prepared.conversation.id
    unplaced = store.unplaced(conversation) if again is None else []
    lost = [each.id for each in unplaced if each.id != row.id and _gone(each, prepared.host)]
    store.place(row.id, lost)
    if again is not None:
        messages = store.messages(conversation)
        at = _index(messages, again)
        _drop(store, conversation, messages, at + 1)
        store.address(addressed(messages[at], prepared))


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
    """The turn came to nothing; its message stays and gets its place when the conversation is free.

    One that had begun is left as it is: the next turn looks into what it did.
    """
    row = store.turn(turn.run)
    if row is not None and row.status == "waiting":
        ended_ms = row.started_ms + turn.duration_ms
        store.settle(
            Settlement(turn=msgspec.structs.replace(row, status=turn.status, told=turn, ended_ms=ended_ms))
        )


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
    store.edit(message, text, time.time_ns() // 1_000_000, removed, moved)
    return removed


def truncate(store: Store, conversation: Conversation, message: str) -> list[str]:
    """Drop a message and all after it. The ids of what was dropped."""
    messages = store.messages(conversation.id)
    return _drop(store, conversation.id, messages, _index(messages, message))


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
    store: Store, conversation: Conversation, home: Home, host: str, wait_s: float
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
    """The message a user means: its id, ``#n``, or the last one (of ``sender``)."""
    messages = store.messages(conversation.id)
    if named is None:
        said = [*messages, *_unheard(store, conversation.id)]
        mine = [message for message in said if sender in (None, message.sender)]
        if not mine:
            raise Misuse(f"{conversation.key} has no message yet")
        return mine[-1]
    number = named.removeprefix("#")
    if number.isdecimal() and 1 <= int(number) <= len(messages):
        found = messages[int(number) - 1]
    else:
        matching = [message for message in messages if message.id == named]
        if not matching:
            last = f"its messages are #1 to #{len(messages)}" if messages else "it has none"
            raise Misuse(f'{conversation.key} has no message "{named}"; {last}')
        found = matching[0]
    if sender is not None and found.sender != sender:
        raise Misuse(f"{named} was said by the {found.sender}; name a message of the {sender}")
    return found


def _unheard(store: Store, conversation: str) -> list[Message]:
    """Messages whose turn gave up waiting: kept, but without a place yet."""
    return [
        Message(id=row.message, sender="user", voice=row.voice, account=row.account)
        for row in store.unplaced(conversation)
        if row.ended_ms is not None
    ]


def _drop(store: Store, conversation: str, messages: list[Message], at: int) -> list[str]:
    removed = [message.id for message in messages[at:]]
    if removed:
        moved = risen(messages, messages[:at], _voices(messages))
        store.truncate(conversation, removed, time.time_ns() // 1_000_000, moved)
    return removed


def _voices(messages: Sequence[Message]) -> list[Voice]:
    return sorted({message.voice for message in messages})


def _index(messages: Sequence[Message], message: str) -> int:
    for at, each in enumerate(messages):
        if each.id == message:
            return at
    raise Misuse("the message is not in the conversation any more")


def _gone(row: TurnRow, host: str) -> bool:
    """Whether nobody works on a turn any more: it is over, or its process is."""
    if row.ended_ms is not None:
        return True
    if row.host == host:
        return not lives(row.owner)
    return time.time_ns() // 1_000_000 - row.started_ms > FORGOTTEN_MS
