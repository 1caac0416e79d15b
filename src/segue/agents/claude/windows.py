"""Single values out of the beginning and the end of a session's file, found by their keys, not by decoding.

A window may begin or end in mid-line. A key is known by its quotes and its colon: in what somebody said,
quotes are escaped, so only a field can be found. Titles and directories come out as in the list of Claude's
own SDK, which looks for them in the same windows; a last value written with a space behind its colon counts
before one without, as it does there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from segue.agents.reader import HEAD, TAIL

GLANCE = 2048
_TYPED, _MESSAGE = b'{"type":"', b'{"parentUuid":'
_KIND = len(_TYPED)
"""How the CLI's own lines begin: notes, and records of the chain."""
_ESCAPE = ord("\\")


class Windows(NamedTuple):
    """A file's two ends. Where they meet, both are the ``whole`` of it: to copy them would cost more than all
    that is looked for in them."""

    head: bytes
    tail: bytes
    whole: bytes | None
    size: int


def look(path: str) -> Windows:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(opened).st_size
        if size <= HEAD + TAIL:
            whole = os.pread(opened, HEAD + TAIL, 0)
            return Windows(whole, whole, whole, len(whole))
        return Windows(os.pread(opened, HEAD, 0), os.pread(opened, TAIL, size - TAIL), None, size)
    finally:
        os.close(opened)


def notes(window: bytes, wanted: Sequence[bytes]) -> dict[bytes, bytes]:
    """The last line of each kind that is wanted, by how it begins; those of no known beginning under ``b""``.

    To look at the beginnings of lines is ten times as fast as to look for a key that is not there: messages
    are long, notes are short.
    """
    found: dict[bytes, bytes] = {}
    strange: list[bytes] = []
    end = len(window)
    while end > 0:
        start = window.rfind(b"\n", 0, end) + 1
        if window.startswith(_MESSAGE, start):
            pass
        elif window.startswith(_TYPED, start):
            for kind in wanted:
                if kind not in found and window.startswith(kind, start + _KIND):
                    found[kind] = window[start:end]
        elif end > start:
            strange.append(window[start:end])
        end = start - 1
    if strange:
        found[b""] = b"\n".join(reversed(strange))
    return found


def is_spaced(seen: Windows) -> bool:
    """Whether somebody else's JSON, with spaces behind its colons, is in it; a glance must do."""
    head, tail, mark = seen.head, seen.tail, b'": "'
    if head.find(mark, 0, GLANCE) >= 0 or tail.find(mark, max(len(tail) - GLANCE, 0)) >= 0:
        return True
    return tail is not head and tail.find(mark, 0, GLANCE) >= 0


def first(window: bytes, key: str, spaced: bool = True) -> str | None:
    for pattern in _patterns(key, spaced):
        at = window.find(pattern)
        if at >= 0:
            value = _string(window, at + len(pattern))
            if value is not None:
                return value or None
    return None


def last(window: bytes, key: str, spaced: bool = True) -> str | None:
    """None also where the last value is empty."""
    for pattern in _patterns(key, spaced)[::-1]:
        at = window.rfind(pattern)
        while at >= 0:
            value = _string(window, at + len(pattern))
            if value is not None:
                return value or None
            at = window.rfind(pattern, 0, at)
    return None


def line(window: bytes, at: int) -> tuple[int, int]:
    """Where the line around a place begins and ends."""
    end = window.find(b"\n", at)
    return window.rfind(b"\n", 0, at) + 1, len(window) if end < 0 else end


def places(window: bytes, pattern: bytes) -> Iterator[int]:
    at = window.find(pattern)
    while at >= 0:
        yield at
        at = window.find(pattern, at + len(pattern))


def places_back(window: bytes, pattern: bytes, start: int = 0) -> Iterator[int]:
    """The same from the end, which is also the faster way through a window."""
    at = window.rfind(pattern, start)
    while at >= 0:
        yield at
        at = window.rfind(pattern, start, at)


@cache
def _patterns(key: str, spaced: bool) -> tuple[bytes, ...]:
    patterns = (f'"{key}":"'.encode(), f'"{key}": "'.encode())
    return patterns if spaced else patterns[:1]


def _string(window: bytes, start: int) -> str | None:
    """The string that begins there; None where its end is not in the window."""
    end = window.find(b'"', start)
    while end >= 0:
        before = end
        while before > start and window[before - 1] == _ESCAPE:
            before -= 1
        if (end - before) % 2 == 0:
            return _unescaped(window[start:end])
        end = window.find(b'"', end + 1)
    return None


def _unescaped(text: bytes) -> str:
    if b"\\" in text:
        try:
            return msgspec.json.decode(b'"' + text + b'"', type=str)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return text.decode("utf-8", "replace")
