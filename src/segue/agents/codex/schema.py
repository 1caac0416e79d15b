"""The lines of a rollout and the items in them, decoded: no more of them than anybody needs.

A rollout line by line: from any place backwards or forwards, and what a line says of turns.

A line's place is where its text ends, before the line break, so that a last line without one has a place too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import IO, Any

import msgspec

from segue.agents import jsonl

ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
INSERTED = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>"),
    *("<user_shell_command>", "<subagent_notification>", "<skill>", "<hook_prompt>", "<goal_context>"),
    *("<codex_internal_context>", "<recommended_plugins>"),
)
"""How messages begin that Codex puts in under the user's name; new versions also say it beside the text."""
PROJECT = "# AGENTS.md instructions"


class Content(msgspec.Struct, frozen=True):
    text: str | None = None
    image_url: msgspec.Raw = msgspec.Raw()


class _Kinds(msgspec.Struct, frozen=True):
    content_item_kinds: list[str] | None = None


class Item(msgspec.Struct, frozen=True):
    """The payload of a ``response_item``."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    call_id: str | None = None
    output: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    internal_chat_message_metadata_passthrough: _Kinds | None = None


class Line(msgspec.Struct, frozen=True):
    timestamp: str | None = None
    type: str = ""
    payload: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(Line)
_item = msgspec.json.Decoder(Item)


def line_of(text: bytes) -> Line | None:
    """One line; None when it is damaged. What is passed over unread must be UTF-8 as well: Codex reads it."""
    try:
        if not text.isascii():
            text.decode()
        return _line.decode(text)
    except ERRORS:
        return None


def item_of(raw: msgspec.Raw) -> Item | None:
    """An item; None when it is none that anybody knows."""
    try:
        return _item.decode(raw)
    except ERRORS:
        return None


def at_ms(stamp: str | None) -> int | None:
    if stamp is None:
        return None
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000 + 0.5)
    except (ValueError, OverflowError, OSError):
        return None


def is_inserted(item: Item, text: str) -> bool:
    """Whether Codex put a message in under the user's name."""
    about = item.internal_chat_message_metadata_passthrough
    kinds = [kind for kind in (about and about.content_item_kinds) or () if kind != "unknown"]
    if kinds:
        return not any(kind.startswith("user") for kind in kinds)
    return text.startswith(INSERTED)


def message_text(parts: list[Content] | None) -> str:
    if not parts:
        return ""
    if len(parts) == 1:
        return parts[0].text or ""
    return "\n".join(part.text for part in parts if part.text)


LONGEST_LINE = 1 << 26
"""Looking back ends after this many bytes; a single record of tens of megabytes is normal."""


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    turn_id: str = ""
    root_turn_id: str = ""


class _Line(msgspec.Struct, frozen=True):
    type: str
    ordinal: int | None = None
    payload: msgspec.Raw = msgspec.Raw()


class Record(msgspec.Struct, frozen=True):
    """What is read of a line: its kind is that of an event, else that of the record."""

    kind: str
    numbered: bool
    turn: str
    root: str
    """The turn that a turn came out of: its own, unless Codex began it by itself."""


_record_line = msgspec.json.Decoder(_Line)
_payload = msgspec.json.Decoder(_Payload)
_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_record(text: bytes) -> Record | None:
    """One line; ``None`` when it is damaged."""
    try:
        line = _record_line.decode(text)
    except _DAMAGE:
        return None
    payload = _read_payload(line.payload) if line.type == "event_msg" else _Payload()
    return Record(
        kind=payload.type or line.type,
        numbered=line.ordinal is not None,
        turn=payload.turn_id,
        root=payload.root_turn_id or payload.turn_id,
    )


def _read_payload(raw: msgspec.Raw) -> _Payload:
    try:
        return _payload.decode(raw)
    except _DAMAGE:
        return _Payload()


def backwards(file: IO[bytes], end: int) -> Iterator[tuple[int, bytes]]:
    """The lines up to ``end``, the last one first, each with its place."""
    for line in jsonl.backwards(file, end):
        if end - line.start > LONGEST_LINE:
            return
        if line.text is not None:
            yield line.start + len(line.text), line.text


def forwards(file: IO[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    """The lines from ``start`` on, each with its place."""
    file.seek(start)
    at = start
    for line in file:
        text = line.removesuffix(b"\n")
        yield at + len(text), text
        at += len(line)


def last_record(file: IO[bytes]) -> Record | None:
    """The last line that is whole."""
    found = (read_record(text) for _, text in backwards(file, file.seek(0, 2)))
    return next((record for record in found if record is not None), None)
