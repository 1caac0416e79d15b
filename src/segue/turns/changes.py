"""Changes of a conversation: messages are edited, dropped, retried; the conversation is forked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from segue.core.errors import InUse, Misuse, NotFound
from segue.core.model import Host, Message, Voice
from segue.core.view import risen
from segue.store.leases import attempt_runs, judge, lease_name
from segue.store.records import ChangeRow, Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.prepare import Prepared
from segue.turns.request import NONE, Options

FORK_TRIES = 20


def forked_if_busy(
    prepared: Prepared, store: Store, notice: Callable[[str], None], retry_message: str | None
) -> tuple[Prepared, str | None]:
    """The same turn in a fork of the conversation, if another turn of it is running.

    ``retry_message``: the message to retry; in a fork, its copy is retried.
    """
    conversation = store.conversation(prepared.conversation.key)
    if conversation is None or not _is_busy(store, conversation.id, prepared.host):
        return prepared, retry_message
    new = fork(store, conversation, None)
    notice(f"another turn of {conversation.key} is running: this one continues in {new.key}")
    if retry_message is not None:
        ids, copies = [message.id for message in store.messages(conversation.id)], store.messages(new.id)
        at = ids.index(retry_message) if retry_message in ids else len(copies)
        if at >= len(copies):
            raise Misuse("the message to retry is being answered right now, or waits for its turn")
        retry_message = copies[at].id
    return msgspec.structs.replace(prepared, conversation=new), retry_message


def fork(store: Store, conversation: Conversation, key: str | None, upto: str | None = None) -> Conversation:
    """A new conversation with the messages so far, without one that is being answered right now."""
    for _ in range(FORK_TRIES):
        wanted = key or store.free_key(conversation.key)
        try:
            return _fork(store, conversation, wanted, upto)
        except Misuse:
            if key is not None or store.conversation(wanted) is None:
                raise  # otherwise another process took the free key at the same moment
    raise InUse(f"{conversation.key} is being forked by too many processes at once; try again later")


def _fork(store: Store, conversation: Conversation, key: str, upto: str | None) -> Conversation:
    running = {row.message for row in store.unsettled(conversation.id)}
    messages, now_ms = store.messages(conversation.id), clock.now_ms()
    if upto is None and messages:
        settled = [message for message in messages if message.id not in running]
        if not settled:  # nothing is answered yet: there is nothing to copy
            empty = msgspec.structs.replace(
                conversation,
                id=clock.new_id(),
                key=key,
                created_ms=now_ms,
                updated_ms=now_ms,
                forked_from=conversation.key,
            )
            store.add(empty, [])
            return empty
        upto = settled[-1].id
    return store.fork(conversation, key, upto, now_ms, clock.new_id)


def _is_busy(store: Store, conversation: str, host: Host) -> bool:
    """Whether a turn of it is running, even if its Segue was killed."""
    holder = store.lease(lease_name(conversation))
    if holder is not None and judge(holder, host) != "dead":
        return True
    return attempt_runs(store, conversation, host)


def check_retry(store: Store, conversation: str, message: str, cut: bool) -> None:
    """Raise ``Misuse`` if more than the message's own answer follows it, unless ``cut`` allows to drop it."""
    messages = store.messages(conversation)
    if cut or message not in {each.id for each in messages}:
        return
    at = message_index(messages, message)
    after = messages[at + 1 :]
    if after and after[0].sender == "assistant":  # its own; a fork does not know which run gave it
        del after[0]
    answers = {run.answer for run in store.runs_of([message]).get(message, [])}
    others = [each for each in after if each.id not in answers]
    if others:
        follow = "1 message follows" if len(others) == 1 else f"{len(others):,} messages follow"
        raise Misuse(
            f"{follow} #{at + 1}, and would be dropped: add --cut, or retry it in a fork (segue fork)"
        )


def edit(store: Store, conversation: Conversation, message: str, text: str, *, cut: bool) -> list[str]:
    """Change one message; with ``cut``, drop what follows. Returns the ids of what was dropped."""
    if not text.strip():
        raise Misuse("the new text is empty; to drop a message use segue truncate")
    messages = store.messages(conversation.id)
    at = message_index(messages, message)
    if messages[at].kind == "carried":
        raise Misuse(f"#{at + 1} was carried over from another account; it can be dropped, but not edited")
    changed = msgspec.structs.replace(messages[at], revision=messages[at].revision + 1)
    after = [*messages[:at], changed, *([] if cut else messages[at + 1 :])]
    removed = [each.id for each in messages[at + 1 :]] if cut else []
    moved = risen(messages, after, voices_of(messages))
    store.edit(message, text, clock.now_ms(), removed, moved)
    return removed


def truncate(store: Store, conversation: Conversation, message: str) -> list[str]:
    """Drop a message and all after it. Returns the ids of what was dropped."""
    messages = store.messages(conversation.id)
    at = message_index(messages, message)
    removed = [each.id for each in messages[at:]]
    store.truncate(
        conversation.id, removed, clock.now_ms(), risen(messages, messages[:at], voices_of(messages))
    )
    return removed


def undo(store: Store, conversation: Conversation) -> ChangeRow:
    """Undo the last edit, truncation or retry."""
    done = store.undo(conversation.id, clock.now_ms(), lambda a, b: risen(a, b, voices_of([*a, *b])))
    if done is None:
        raise Misuse(
            f"{conversation.key} has no change to undo: something was said since the last one, or"
            " there is none; segue fork continues from an earlier message"
        )
    return done


def known_conversation(store: Store, key: str) -> Conversation:
    """The conversation with that key, or ``NotFound`` with a hint."""
    conversation = store.conversation(key)
    if conversation is not None:
        return conversation
    from difflib import get_close_matches

    close = get_close_matches(key, [each.conversation.key for each in store.conversations()], 1)
    hint = f"did you mean {close[0]}?" if close else "segue ls lists all conversations"
    raise NotFound(f"there is no conversation {key}; {hint}")


def as_said(store: Store, message: Message, options: Options) -> Options:
    """The options of a retry: the same agent, account, role and permissions, unless told otherwise."""
    same: Options = {"role": message.voice.role or NONE, **_allowed(store, message)}
    if options.get("agent") is None and options.get("account") is None:
        same |= {"agent": message.voice.agent, "account": message.account or NONE}
    given = {name: value for name, value in options.items() if value not in (None, ())}
    return cast("Options", {**same, **given})


def _allowed(store: Store, message: Message) -> Options:
    """What a run that never began was allowed to do. For other runs, the voice remembers it."""
    runs = store.runs_of([message.id]).get(message.id, [])
    turn = runs[-1].told if runs and runs[-1].state == "withdrawn" else None
    if turn is None:
        return {}
    terms = turn.terms
    held = {
        "permission": terms.permission,
        "allow_tools": terms.allow_tools,
        "deny_tools": terms.deny_tools,
        "budget_usd": terms.budget_usd,
    }
    given = {name: value for name, value in held.items() if value and name not in terms.remembered}
    return cast("Options", {name.removesuffix("_usd"): value for name, value in given.items()})


def find_message(
    store: Store, conversation: Conversation, named: str | None, sender: str | None = None
) -> Message:
    """The message that a user names by its id, ``#n`` or the id of a run; or the last one (of ``sender``)."""
    messages = store.messages(conversation.id)
    if named is None:
        spoken = [each for each in messages if each.kind == "said"]
        return _last(store, conversation, [each for each in spoken if sender in (None, each.sender)])
    number = named.removeprefix("#")
    if number.isdecimal() and 1 <= int(number) <= len(messages):
        message = messages[int(number) - 1]
    else:
        run = store.turn(named)
        wanted = run.message if run is not None and run.conversation == conversation.id else named
        candidates = [*messages, *_withdrawn(store, conversation.id)]
        matching = [message for message in candidates if message.id == wanted]
        if not matching:
            last = f"its messages are #1 to #{len(messages)}" if messages else "it has none"
            raise NotFound(f'{conversation.key} has no message "{named}"; {last}')
        message = matching[0]
    if sender is not None and message.kind == "carried":
        raise Misuse(f"{named} was carried over from another account; name a message of the {sender}")
    if sender is not None and message.sender != sender:
        raise Misuse(f"{named} is a message of the {message.sender}; name a message of the {sender}")
    return message


def _last(store: Store, conversation: Conversation, placed: list[Message]) -> Message:
    """The message that was said or run last, including withdrawn ones."""
    last = [*placed[-1:], *_withdrawn(store, conversation.id)]
    if not last:
        raise Misuse(f"{conversation.key} has no message yet")
    runs = store.runs_of([message.id for message in last])
    return max(last, key=lambda message: runs[message.id][-1].started_ms if message.id in runs else 0)


def _withdrawn(store: Store, conversation: str) -> list[Message]:
    """The withdrawn messages: kept, but without a place."""
    return [
        Message(id=row.message, sender="user", voice=row.voice, account=row.account)
        for row in store.unplaced(conversation)
        if row.state == "withdrawn"
    ]


def voices_of(messages: Sequence[Message]) -> list[Voice]:
    """The voices that said these messages or were addressed by them."""
    return sorted({message.voice for message in messages})


def message_index(messages: Sequence[Message], message: str) -> int:
    """The index of a message; ``NotFound`` if it is not in the conversation any more."""
    for at, each in enumerate(messages):
        if each.id == message:
            return at
    raise NotFound("the message is no longer in the conversation")
