"""The stored texts of messages, with what tools showed and why a message has no answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from segue.core.model import Message
from segue.core.prompt_messages import MessageText, ToolShown, Unanswered
from segue.core.prompt_parts import unanswered_note
from segue.store.records import telling
from segue.store.store import Store


def load_texts(store: Store, messages: Sequence[Message]) -> dict[str, MessageText]:
    """The texts by message id. Tools are looked up only if there is more than one message."""
    if not messages:
        return {}
    texts = store.texts([message.id for message in messages])
    if len(messages) == 1:
        (only,) = messages
        return {only.id: MessageText(only, texts[only.id])}
    answers = [message.id for message in messages if message.sender == "assistant"]
    tools = {message: tuple(_tools(rows)) for message, rows in store.tool_events(answers).items()}
    failed = _failed(store, [each for at, each in enumerate(messages) if _is_unanswered(messages, at)])
    return {
        each.id: MessageText(each, texts[each.id], *failed[each.id])
        if each.id in failed
        else MessageText(each, texts[each.id], tools.get(each.id, ()))
        for each in messages
    }


def _is_unanswered(messages: Sequence[Message], at: int) -> bool:
    """Whether no answer follows a user message. The last one is the new message and does not count."""
    last = at == len(messages) - 1
    asked = messages[at].sender == "user" and messages[at].kind == "said"
    return not last and asked and messages[at + 1].sender == "user"


def unanswered_notes(store: Store, messages: Sequence[Message]) -> dict[str, str]:
    """Why these messages of the user have no answer, in words."""
    return {
        message: unanswered_note(why.kind, why.tools_run)
        for message, (_, why) in _failed(store, messages).items()
    }


def _failed(store: Store, messages: Sequence[Message]) -> dict[str, tuple[tuple[ToolShown, ...], Unanswered]]:
    """What was done for messages that have no answer, and why they have none."""
    failed: dict[str, tuple[tuple[ToolShown, ...], Unanswered]] = {}
    runs = store.runs_of([message.id for message in messages])
    for message in messages:
        begun = telling([run for run in runs.get(message.id, ()) if run.state != "withdrawn"])
        turn = begun.told if begun is not None else None
        kind = turn.failure.kind if turn is not None and turn.failure is not None else ""
        done = turn.tools_run if turn is not None else 0
        events = store.events(begun.id) if begun is not None and done != 0 else []
        failed[message.id] = (
            tuple(_tools((event for _, _, event in events), unfinished=True)),
            Unanswered(kind, done),
        )
    return failed


def _tools(rows: Iterable[str], unfinished: bool = False) -> Iterable[ToolShown]:
    """The tool calls of a turn that ran, in order; with ``unfinished``, also those that may have run."""
    calls: dict[str, dict[str, Any]] = {}
    for row in rows:
        event: dict[str, Any] = msgspec.json.decode(row)
        if event["type"] == "tool-call":
            calls[event["id"]] = event
        elif event["type"] == "tool-result":
            call = calls.pop(event["id"], {})
            if not event.get("denied"):
                name = event.get("name") or call.get("name", "a tool")
                yield ToolShown(name, _asked(call, unfinished) + event.get("output", ""))
    for call in calls.values() if unfinished else ():
        yield ToolShown(call["name"], _asked(call, True) + "(it was interrupted before it told a result)")


def _asked(call: dict[str, Any], shown: bool) -> str:
    """The input of a call, if it is shown. In an answered turn, the answer explains it."""
    given = call.get("input")
    return f"{msgspec.json.encode(given).decode()}\n" if shown and given else ""
