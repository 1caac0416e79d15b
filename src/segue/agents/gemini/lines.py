"""What one line of a session file holds; the older single object is such a line too.

Decoding by type is several times faster than by table, and most of a transcript is passed over unread.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from segue.agents.gemini.drifted import as_header, as_held, clean
from segue.agents.gemini.shapes import Header, Held, Line, Message
from segue.core.loose import table

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)
_TOUCH, _TOUCH_BYTES = b'{"$set":{"lastUpdated":"', 51

_line = msgspec.json.Decoder(Line)
_message = msgspec.json.Decoder(Message)
_header = msgspec.json.Decoder(Header)


def held(raw: bytes) -> tuple[Held, str]:
    """What a line holds, or its name where that is unknown. Raises one of ``ERRORS`` for what is no JSON."""
    try:
        if raw.startswith(b'{"id"'):
            return _message.decode(raw), ""
        line = _line.decode(raw)
        if line.rewind is not None:
            return line.rewind, ""
        if line.id is not None:
            return _message.decode(raw), ""
        if line.patch is not None:
            return line.patch, ""
        return (_header.decode(raw), "") if line.sessionId is not None else (None, line.type or "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return as_held(table(_plain(raw)))


def is_touch(raw: bytes) -> bool:
    """Every second line says nothing but when the session was written to."""
    return len(raw) <= _TOUCH_BYTES and raw.startswith(_TOUCH)


def header(raw: bytes) -> Header:
    """The whole of the older form."""
    try:
        return _header.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return as_header(table(_plain(raw)))


def ms(stamp: str | None) -> int | None:
    try:
        when = datetime.fromisoformat(stamp or "")
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _plain(raw: bytes) -> Any:
    return clean(json.loads(raw.decode("utf-8", "replace")), raw)
