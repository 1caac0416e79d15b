"""Files with one record per line, read forwards or backwards from any place, whatever their size.

A place is the number of bytes before a line. Lines longer than ``LONGEST`` are not loaded; their text is
``None``. A file may grow or shrink while it is read; lines that have disappeared are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, NamedTuple

from segue.agents.base import Record, SessionArchive, StoredSession, damaged
from segue.core.transcript import Entry

LONGEST = 64 * 1024 * 1024
_FIRST, _MOST = 64 * 1024, 4 * 1024 * 1024


class JsonlArchive(SessionArchive):
    """The archive of a format with one record per line: ``read`` and ``back`` in terms of ``entries``."""

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        """Pure: the entries of one line. Never raises."""
        raise NotImplementedError

    def opened(self, stored: StoredSession) -> AbstractContextManager[IO[bytes]]:
        return stored.path.open("rb")

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        try:
            with self.opened(stored) as file:
                for line in forwards(file, start):
                    if line.whole:
                        yield self._record(line.start, line.next, line.text)
        except OSError as error:
            yield unreadable(start, error)

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        try:
            with self.opened(stored) as file:
                for line in backwards(file, end):
                    yield self._record(line.start, line.next, line.text)
        except OSError as error:
            yield unreadable(0, error)

    def _record(self, start: int, following: int, text: bytes | None) -> Record:
        if text is None:
            return Record(start, following, (damaged(start, f"a line of more than {LONGEST >> 20} MB"),))
        return Record(start, following, self.entries(text, start))


class Line(NamedTuple):
    start: int
    next: int
    """Where the next line starts."""
    text: bytes | None
    """Without its line break; None if it is too long to be loaded."""
    whole: bool = True
    """It ends with a line break, so it is not still being written."""


def forwards(file: IO[bytes], start: int = 0) -> Iterator[Line]:
    """The lines from a place on, the first one first. Empty ones are skipped."""
    file.seek(start)
    at, size = start, _FIRST
    held: list[bytes] = []
    kept = 0
    while piece := file.read(size):
        size = min(size * 4, _MOST)
        *ended, rest = piece.split(b"\n")
        for text in ended:
            length = kept + len(text)
            if length:
                joined = b"".join((*held, text)) if held else text
                yield Line(at, at + length + 1, joined if length <= LONGEST else None)
            at += length + 1
            held, kept = [], 0
        kept += len(rest)
        if kept > LONGEST:
            held = []
        elif rest:
            held.append(rest)
    if kept:
        yield Line(at, at + kept, b"".join(held) if kept <= LONGEST else None, whole=False)


def backwards(file: IO[bytes], end: int | None = None) -> Iterator[Line]:
    """The lines before a place (default: the file's end), the last one first. Empty ones are skipped."""
    size = file.seek(0, 2)
    end = size if end is None else min(end, size)
    start, step = end, _FIRST
    pieces: list[bytes] = []  # of the line whose beginning is not read yet, the last piece first
    kept, whole, following = 0, False, end
    while start > 0:
        count = min(step, start)
        start, step = start - count, min(step * 4, _MOST)
        file.seek(start)
        first, *lines = file.read(count).split(b"\n")
        at = start + count
        if lines:
            last = lines.pop()
            at -= len(last)
            if kept + len(last):
                joined = b"".join((last, *reversed(pieces))) if kept + len(last) <= LONGEST else None
                yield Line(at, following, joined, whole)
            following = at
            for text in reversed(lines):
                at -= len(text) + 1
                if text:
                    yield Line(at, following, text)
                following = at
            pieces, kept, whole = [], 0, True
        kept += len(first)
        if kept > LONGEST:
            pieces = []
        else:
            pieces.append(first)
    if kept:
        yield Line(0, following, b"".join(reversed(pieces)) if kept <= LONGEST else None, whole)


def unreadable(start: int, error: OSError) -> Record:
    """A record in place of a file that cannot be read."""
    return Record(start, start, (damaged(start, f"it cannot be read: {error.strerror or error}"),))
