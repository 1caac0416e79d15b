"""A rollout line by line: from any place backwards or forwards, and what a line says of turns.

A line's place is where its text ends, before the line break, so that a last line without one has a place too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import msgspec

from segue.agents import records

LONGEST = 1 << 26
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


_line = msgspec.json.Decoder(_Line)
_payload = msgspec.json.Decoder(_Payload)
_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read(text: bytes) -> Record | None:
    """One line; ``None`` when it is damaged."""
    try:
        line = _line.decode(text)
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
    for line in records.backwards(file, end):
        if end - line.start > LONGEST:
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
    found = (read(text) for _, text in backwards(file, file.seek(0, 2)))
    return next((record for record in found if record is not None), None)
