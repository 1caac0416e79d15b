"""The older form, one object: its messages as records, counted instead of measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from segue.agents.gemini.drifted import as_header, as_message, clean
from segue.agents.gemini.entries import of_message
from segue.agents.gemini.lines import ERRORS, header
from segue.agents.gemini.shapes import Header, Message
from segue.agents.reader import Record, damaged
from segue.core.loose import table
from segue.core.transcript import Entry

WHOLE_BYTES = 256 * 1024 * 1024


def records(path: Path) -> list[Record]:
    """All of them; of a file that was cut off, those that are whole, and that it was."""
    try:
        if path.stat().st_size > WHOLE_BYTES:
            return [_trouble(0, f"a file of over {WHOLE_BYTES >> 20} MB in one object")]
        raw = path.read_bytes()
    except OSError as error:
        return [_trouble(0, f"it cannot be read: {error.strerror or error}")]
    found, whole = _document(raw)
    made = list(_made(found))
    return made if whole else [*made, _trouble(len(made), "the file is cut off or not JSON")]


def _made(found: Header) -> Iterator[Record]:
    for at, message in enumerate(found.messages or ()):
        entries: list[Entry] = []
        of_message(message, at, entries)
        yield Record(at, at + 1, entries)


def _document(raw: bytes) -> tuple[Header, bool]:
    try:
        return header(raw), True
    except ERRORS:
        head, messages = salvaged(raw)
        said: list[Message] = [as_message(one) for one in messages]
        return replace(as_header(head), messages=said), False


def salvaged(raw: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What can be read of an object that was cut off: its header, and the messages that are whole."""
    text, decoder = raw.decode("utf-8", "replace"), json.JSONDecoder()
    head, found, rest = text.partition('"messages"')
    try:
        known = table(json.loads(head.rstrip().rstrip(",") + "}")) if found else {}
    except (ValueError, RecursionError):
        known = {}
    messages: list[dict[str, Any]] = []
    at = rest.find("[") + 1
    while at > 0:
        at = rest.find("{", at)
        try:
            one, at = decoder.raw_decode(rest, at) if at >= 0 else (None, -1)
        except (ValueError, RecursionError):
            break
        if isinstance(one, dict) and isinstance(one.get("id"), str):
            messages.append(one)
        if at >= 0 and not rest[at : at + 20].lstrip().startswith(","):
            break
    return clean(known, raw), clean(messages, raw)


def _trouble(at: int, why: str) -> Record:
    return Record(at, at, (damaged(at, why),))
