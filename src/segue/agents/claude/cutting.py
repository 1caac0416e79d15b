"""The place in a Claude session where it is cut, and a copy of the session up to there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.agents.claude.records import Record, read


class Cut(msgspec.Struct, frozen=True):
    """An anchor's place in a file."""

    anchor: Record
    at: str
    """The last record that belongs to the turn: the anchor, or the snapshot the CLI wrote behind it."""
    end: int
    """The byte behind that record."""
    compacted: bool
    """A part of the history stands as a summary somewhere in the file."""

    @property
    def is_answer(self) -> bool:
        """A turn ended here as turns should: with the assistant's words, and no call left open."""
        return self.anchor.type == "assistant" and self.anchor.is_said and self.anchor.blocks == {"text"}


def find(path: Path, anchor: str) -> Cut | None:
    """Where the anchor is; None when the file does not have it."""
    place: tuple[Record, str, int] | None = None
    compacted = passed = False
    for record, end in _records(path):
        compacted = compacted or record.is_boundary
        if place is None:
            place = (record, anchor, end) if record.uuid == anchor and record.is_message else None
        elif not passed and record.is_snapshot and record.parent_uuid == place[1]:
            place = (place[0], record.uuid or anchor, end)
        else:
            passed = passed or record.is_message
    return None if place is None else Cut(*place, compacted)


def _records(path: Path) -> Iterator[tuple[Record, int]]:
    """Every record, and the byte behind it."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            record = read(line)
            if record is not None:
                yield record, end


def copy(source: Path, cut: Cut, new_id: str, target: Path) -> None:
    """Write the session up to the cut under its new id: whole, or not at all.

    The running totals stay behind, so that every copy counts from nothing.
    """
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = target.with_name(f".{new_id}.{os.getpid()}.part")
    try:
        with source.open("rb") as old, open(beside, "wb", opener=_private) as new:
            left = cut.end
            for line in old:
                if left <= 0:
                    break
                left -= len(line)
                new.write(_renamed(line, new_id))
        beside.rename(target)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _renamed(line: bytes, new_id: str) -> bytes:
    """The line with the new session's id, all else byte for byte; nothing for what should stay behind."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return b""
    if fields.get("type") == msgspec.Raw(b'"cost-state"'):
        return b""
    if "sessionId" in fields:
        fields["sessionId"] = msgspec.Raw(msgspec.json.encode(new_id))
        return msgspec.json.encode(fields) + b"\n"
    return line.rstrip(b"\r\n") + b"\n"
