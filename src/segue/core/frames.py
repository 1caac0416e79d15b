"""Cuts a stream of bytes into lines, whatever the size of the pieces it comes in.

A line of 20 MB is copied once, not once for every piece. A line beyond the cap is skipped and reported
as ``Oversize``; the lines after it come out right.
"""

from __future__ import annotations

import msgspec

LINE_CAP = 64 * 1024 * 1024
HEAD = 2_000


class Oversize(msgspec.Struct, frozen=True):
    """A line that was longer than the cap: its length, and how it began."""

    length: int
    head: bytes = b""


Line = bytes | Oversize


class Lines:
    """``feed`` it pieces and take whole lines, without their newline; ``finish`` gives the last one."""

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._cap = cap
        self._open = bytearray()
        self._skipped = 0

    def feed(self, chunk: bytes) -> list[Line]:
        head, newline, rest = chunk.partition(b"\n")
        self._extend(head)
        if not newline:
            return []
        whole = rest.split(b"\n")
        tail = whole.pop()
        lines = [self._close(), *(whole if len(rest) <= self._cap else map(self._checked, whole))]
        self._extend(tail)
        return lines

    def finish(self) -> list[Line]:
        """The last line, if the stream did not end in a newline."""
        return [self._close()] if self._open or self._skipped else []

    def _extend(self, piece: bytes) -> None:
        if self._skipped:
            self._skipped += len(piece)
            return
        self._open += piece
        if len(self._open) > self._cap:
            self._skipped = len(self._open)
            self._open = self._open[:HEAD]

    def _close(self) -> Line:
        line = bytes(self._open)
        length, self._skipped, self._open = self._skipped, 0, bytearray()
        return Oversize(length, line) if length else line

    def _checked(self, line: bytes) -> Line:
        return Oversize(len(line), line[:HEAD]) if len(line) > self._cap else line
