"""One line of a Claude session as entries. Pure and tolerant: a line of any version, known or not.

Records with a ``uuid`` form the chain: messages, what was attached to them, and notices of the system. The
others are notes that the CLI keeps beside it, most of which say nothing that anybody would read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from segue.agents.claude import messages, notes
from segue.agents.claude.messages import Message
from segue.agents.reader import damaged, place
from segue.core.transcript import Entry, Kind

BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for a line that is no JSON."""


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """A record, as far as entries are made of it."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    message: Message | None = None
    attachment: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    custom_title: str | None = None
    ai_title: str | None = None
    agent_name: str | None = None
    last_prompt: str | None = None
    summary: str | None = None
    tag: str | None = None


class _Bare(msgspec.Struct, frozen=True, rename="camel"):
    """What is left where a record has the right names with values of other types."""

    type: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = None


_line = msgspec.json.Decoder(Line)
_bare = msgspec.json.Decoder(_Bare)
_NOTE = b'{"type":"'


def entries(text: bytes, start: int) -> Sequence[Entry]:
    """What a line holds; never raises."""
    silent = _silent(text, start)
    if silent is not None:
        return silent
    try:
        line = _line.decode(text)
    except msgspec.ValidationError:
        return _strange(text, start)
    except BROKEN:
        return (damaged(start, "it is not valid JSON"),)
    if line.type in ("user", "assistant") and line.message is not None:
        return _message(line, line.message, start)
    return (_other(line, start),)


def _silent(text: bytes, start: int) -> Sequence[Entry] | None:
    """Notes without words are known by their beginning; some are long, and there are many."""
    if text.startswith(_NOTE) and text.endswith(b"}"):
        end = text.find(b'"', len(_NOTE), len(_NOTE) + 40)
        note = notes.SILENT.get(text[len(_NOTE) : end])
        if note is not None:
            return (Entry(id=place(start), kind="state", label=note.label, restored=note.restored),)
    return None


def _message(line: Line, message: Message, start: int) -> Sequence[Entry]:
    about: dict[str, Any] = {
        "at_ms": milliseconds(line.timestamp),
        "native": line.uuid or "",
        "parent": line.parent_uuid,
        "side": bool(line.is_sidechain),
    }
    if line.type == "assistant":
        return messages.answer(message, start, bool(line.is_api_error_message), about)
    if line.is_compact_summary:
        return (messages.summary(message, start, about),)
    return messages.prompt(message, start, bool(line.is_meta), about)


def _other(line: Line, start: int) -> Entry:
    kind: Kind
    queued = notes.queued(line.attachment) if line.type == "attachment" else None
    if queued is not None:
        kind, label, text, restored = "user", "", queued, True
    elif line.type == "attachment":
        kind, label, text, restored = "state", *notes.attached(line.attachment), True
    elif line.type == "system":
        kind, label, text, restored = "state", *notes.notice(line.subtype or "", line.content)
    elif line.type in notes.NOTES:
        note = notes.NOTES[line.type]
        kind, label, text, restored = "state", note.label, _words(line), note.restored
    else:
        kind, label, text, restored = "unknown", line.type, "", True
    return Entry(
        id=place(start),
        kind=kind,
        text=text,
        label=label,
        restored=restored,
        at_ms=milliseconds(line.timestamp),
        native=line.uuid or "",
        parent=line.parent_uuid,
        side=bool(line.is_sidechain),
    )


def _words(line: Line) -> str:
    return (
        line.custom_title
        or line.ai_title
        or line.agent_name
        or line.last_prompt
        or line.summary
        or line.tag
        or ""
    )


def _strange(text: bytes, start: int) -> Sequence[Entry]:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        bare = _bare.decode(text)
    except msgspec.ValidationError:
        return (Entry(id=place(start), kind="unknown"),)
    except BROKEN:
        return (damaged(start, "it is not valid JSON"),)
    entry = Entry(
        id=place(start),
        kind="unknown",
        label=bare.type if isinstance(bare.type, str) else "",
        native=bare.uuid if isinstance(bare.uuid, str) else "",
        parent=bare.parent_uuid if isinstance(bare.parent_uuid, str) else None,
        side=bare.is_sidechain is True,
    )
    return (entry,)


def milliseconds(timestamp: str | None) -> int | None:
    """An ISO time as milliseconds since 1970; None where it is none."""
    if not timestamp:
        return None
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
