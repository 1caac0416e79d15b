"""All lines of a session that are whole, with those it goes on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from segue.agents.codex import files
from segue.agents.codex.ancestry import ancestry
from segue.agents.codex.items import ERRORS, Line, line_of
from segue.agents.reader import Stored
from segue.agents.records import forwards


class Read(NamedTuple):
    """A line of the session or of what it goes on from, at its place in the session (see the reader)."""

    start: int
    thread: str
    text: bytes
    line: Line


def whole_lines(stored: Stored, done: Counter[str]) -> Iterator[Read]:
    """All lines that are whole, those it goes on from first."""
    parts = list(ancestry(stored.home, stored.path))
    done["joined"] = len(parts) > 1
    shift = -sum(end or 0 for _, end in parts)
    stamp = ""
    for path, end in reversed(parts):
        thread = files.thread_of(path)
        with files.opened(path) as file:
            for place in forwards(file):
                if end is not None and place.start >= end:
                    break
                line = _line(place.text)
                if line is None or place.text is None or not line.type:
                    done["damaged"] += 1
                    continue
                stamp = line.timestamp or stamp
                text = place.text if line.timestamp else _stamped(place.text, stamp, done)
                yield Read(place.start + shift, thread, text, line)
        shift += end or 0


def _line(text: bytes | None) -> Line | None:
    """Only what can be read to its last value."""
    try:
        msgspec.json.decode(text or b"")
    except ERRORS:
        return None
    return line_of(text or b"")


def _stamped(text: bytes, stamp: str, done: Counter[str]) -> bytes:
    """Codex passes over lines that do not say when."""
    done["stamped"] += 1
    record = msgspec.json.decode(text)
    return msgspec.json.encode({**record, "timestamp": stamp or "2000-01-01T00:00:00.000Z"})
