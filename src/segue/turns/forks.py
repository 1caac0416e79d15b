"""Forks: conversations that begin with a copy of another, made on purpose or because that one is busy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from segue.core.errors import InUse, Misuse
from segue.core.hosts import Host
from segue.core.keys import new_id
from segue.store import leases
from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns import orphans
from segue.turns.lease import judge, lease_name
from segue.turns.prepared import Prepared

FORK_TRIES = 20


def forked_if_busy(
    prepared: Prepared, store: Store, notice: Callable[[str], None], again: str | None
) -> tuple[Prepared, str | None]:
    """The same turn in a fork of the conversation, if another turn of it is running.

    ``again``: the message to answer once more; in a fork that is its copy.
    """
    known = store.conversation(prepared.conversation.key)
    if known is None or not _is_busy(store, known.id, prepared.host):
        return prepared, again
    made = fork(store, known, None)
    notice(f"another turn of {known.key} is running: this one goes on in {made.key}")
    if again is not None:
        ids, copies = [message.id for message in store.messages(known.id)], store.messages(made.id)
        at = ids.index(again) if again in ids else len(copies)
        if at >= len(copies):
            raise Misuse("the message to run again is being answered right now, or waits for its turn")
        again = copies[at].id
    return msgspec.structs.replace(prepared, conversation=made), again


def fork(store: Store, conversation: Conversation, key: str | None, upto: str | None = None) -> Conversation:
    """A new conversation with what was said so far, without a message that is being answered right now."""
    for _ in range(FORK_TRIES):
        wanted = key or store.free_key(conversation.key)
        try:
            return _fork(store, conversation, wanted, upto)
        except Misuse:
            if key is not None or store.conversation(wanted) is None:
                raise  # else somebody took the free key in the same moment
    raise InUse(f"{conversation.key} is being forked by too many at once")


def _fork(store: Store, conversation: Conversation, key: str, upto: str | None) -> Conversation:
    running = {row.message for row in store.unsettled(conversation.id)}
    messages, now_ms = store.messages(conversation.id), time.time_ns() // 1_000_000
    if upto is None and messages:
        settled = [message for message in messages if message.id not in running]
        if not settled:  # nothing was answered yet: there is nothing to copy
            empty = msgspec.structs.replace(
                conversation,
                id=_new_id(),
                key=key,
                created_ms=now_ms,
                updated_ms=now_ms,
                forked_from=conversation.key,
            )
            store.add(empty, [])
            return empty
        upto = settled[-1].id
    return store.fork(conversation, key, upto, now_ms, _new_id)


def _is_busy(store: Store, conversation: str, host: Host) -> bool:
    """Whether a turn of it is running, be it one whose Segue was killed."""
    holder = leases.find(store, lease_name(conversation))
    if holder is not None and judge(holder, host) != "dead":
        return True
    return orphans.runs(store, conversation, host)


def _new_id() -> str:
    return new_id(time.time_ns() // 1_000_000, os.urandom(10))
