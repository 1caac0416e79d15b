"""An event as it is recorded: its gist, bounded. The answer stands among the messages, not here."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.core import events as ev
from segue.core.elide import elide

FIELD_BYTES = 4_000
"""Of one text, one input: several times what is ever shown of it to another voice."""


def recorded(event: ev.Event) -> str:
    """As JSON. A field that is too long is shortened; an input that is becomes the beginning of its JSON."""
    if isinstance(event, ev.End):  # what it says is said elsewhere, and its record is for the agent alone
        event = msgspec.structs.replace(event, text=None, raw=None)
    long = {
        name: _short(value) for name, value in msgspec.structs.asdict(event).items() if _may_be_long(value)
    }
    return msgspec.json.encode(msgspec.structs.replace(event, **long) if long else event).decode()


def _may_be_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > FIELD_BYTES // 4
    return isinstance(value, dict | list | tuple) and len(msgspec.json.encode(value)) > FIELD_BYTES


def _short(value: Any) -> Any:
    return elide(value if isinstance(value, str) else msgspec.json.encode(value).decode(), FIELD_BYTES)
