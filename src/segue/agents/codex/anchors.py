"""Anchors in a rollout: the place where a turn ends, and how it is found again.

Codex only ever adds to a rollout, so a place is the number of bytes before it. It stays in a copy under
another id, because ids are of one length. A hash of the line that ends there tells when the file was written
anew; then the id of the turn still finds it, where the turn came to its end.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import IO

import msgspec

from segue.agents.codex.lines import Record, backwards, forwards, read

IDLE = frozenset(("thread_settings_applied", "thread_name_updated"))
"""What Codex notes when it only opens a session, or somebody names it: nobody has spoken."""
_NOBODY = "0" * 36
_ANCHOR = re.compile(r"(\d{1,15}):([0-9a-f]{16})(?::([\w-]{1,80}))?")


class Place(msgspec.Struct, frozen=True):
    """A place in a rollout, and the line that ends there."""

    offset: int
    line: bytes


def at_end(file: IO[bytes], thread: str) -> str | None:
    """The anchor at a rollout's end; ``None`` when no whole line can be found there."""
    for offset, line in backwards(file, file.seek(0, 2)):
        record = read(line)
        if record is not None and record.kind not in IDLE:
            return _anchor(offset, line, record, thread)
    return None


def locate(file: IO[bytes], thread: str, anchor: str) -> Place | None:
    """Where an anchor is in a rollout; ``None`` when it is not there."""
    parts = _ANCHOR.fullmatch(anchor)
    if parts is None:
        return None
    offset, check, turn = int(parts[1]), parts[2], parts[3]
    line = _line_before(file, offset)
    if line is not None and _digest(line, thread) == check:
        return Place(offset, line)
    return _end_of_turn(file, turn) if turn else None


def renamed(line: bytes, thread: str, other: str) -> bytes:
    """A line of a thread as one of another thread's.

    Only ids are replaced, never what was said, in which an id may stand as well. The session's id stays: it
    is the thread's first one, and what new versions have the service keep its cache of the prompt under.
    """
    if thread.encode() not in line:
        return line
    return _own_ids(thread).sub(rb"\g<1>" + other.encode() + b'"', line)


@lru_cache(maxsize=8)
def _own_ids(thread: str) -> re.Pattern[bytes]:
    return re.compile(rb'("(?!session_id")\w*[iI]d"\s*:\s*")' + thread.encode() + b'"')


def _anchor(offset: int, line: bytes, record: Record, thread: str) -> str:
    anchor = f"{offset}:{_digest(line, thread)}"
    with_turn = f"{anchor}:{record.turn}"
    ended = record.kind == "task_complete" and _ANCHOR.fullmatch(with_turn)
    return with_turn if ended else anchor


def _digest(line: bytes, thread: str) -> str:
    return sha256(renamed(line, thread, _NOBODY)).hexdigest()[:16]


def _line_before(file: IO[bytes], offset: int) -> bytes | None:
    if offset > file.seek(0, 2):
        return None
    file.seek(offset)
    if file.read(1) not in (b"\n", b""):
        return None
    return next((line for _, line in backwards(file, offset)), None)


def _end_of_turn(file: IO[bytes], turn: str) -> Place | None:
    mark = turn.encode()
    for offset, line in forwards(file, 0):
        if mark in line and b'"task_complete"' in line:
            record = read(line)
            if record is not None and (record.kind, record.turn) == ("task_complete", turn):
                return Place(offset, line)
    return None
