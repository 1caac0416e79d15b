"""Messages with their words, and with what their tools showed, as the store has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from segue.core.model import Message
from segue.core.spoken import Spoken, ToolShown
from segue.store.store import Store


def spoken(store: Store, messages: Sequence[Message]) -> dict[str, Spoken]:
    """By message id. Tools are looked up only for answers, and only where there is more than one message."""
    if not messages:
        return {}
    texts = store.texts([message.id for message in messages])
    if len(messages) == 1:
        (only,) = messages
        return {only.id: Spoken(only, texts[only.id])}
    answers = [message.id for message in messages if message.sender == "assistant"]
    tools = {message: tuple(_tools(rows)) for message, rows in store.tool_events(answers).items()}
    return {
        message.id: Spoken(message, texts[message.id], tools.get(message.id, ()), _answered(messages, at))
        for at, message in enumerate(messages)
    }


def _answered(messages: Sequence[Message], at: int) -> bool:
    """A user message got an answer if one follows it; the last is only just being asked."""
    return at == len(messages) - 1 or messages[at + 1].sender == "assistant" or messages[at].sender != "user"


def _tools(rows: Iterable[str]) -> Iterable[ToolShown]:
    """The calls of a turn that were carried out, in order."""
    names: dict[str, str] = {}
    for row in rows:
        event: dict[str, Any] = msgspec.json.decode(row)
        if event["type"] == "tool-call":
            names[event["id"]] = event["name"]
        elif not event.get("denied"):
            yield ToolShown(event.get("name") or names.get(event["id"], "a tool"), event.get("output", ""))
