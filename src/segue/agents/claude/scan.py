"""Single values in a part of a session's file, found by searching for their keys instead of decoding.

A window may begin or end in the middle of a line. A key is recognised by its quotes and its colon: quotes in
messages are escaped, so only a field can match. Titles and directories are the same as in the list of
Claude's own SDK, which searches the same windows: the last value written with a space after its colon takes
precedence over one without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from segue.agents.decoding import DAMAGE
from segue.agents.windows import Ends

GLANCE = 2048
_NOTE, _RECORD = b'{"type":"', b'{"parentUuid":'
"""How the CLI's own lines begin: notes, and records of the chain."""
_KIND = len(_NOTE)
_ESCAPE = ord("\\")


def is_spaced(ends: Ends) -> bool:
    """Whether some JSON has spaces after its colons, because another program wrote it. Checks samples."""
    head, tail, mark = ends.head, ends.last, b'": "'
    if head.find(mark, 0, GLANCE) >= 0 or tail.find(mark, max(len(tail) - GLANCE, 0)) >= 0:
        return True
    return tail is not head and tail.find(mark, 0, GLANCE) >= 0


def last_notes(window: bytes, kinds: Sequence[bytes]) -> dict[bytes, bytes]:
    """The last line of each kind of note; lines with an unknown beginning are under ``b""``.

    Checking the beginnings of lines is ten times as fast as searching for a key that is missing: messages are
    long, notes are short.
    """
    notes: dict[bytes, bytes] = {}
    others: list[bytes] = []
    end = len(window)
    while end > 0:
        start = window.rfind(b"\n", 0, end) + 1
        if window.startswith(_RECORD, start):
            pass
        elif window.startswith(_NOTE, start):
            for kind in kinds:
                if kind not in notes and window.startswith(kind, start + _KIND):
                    notes[kind] = window[start:end]
        elif end > start:
            others.append(window[start:end])
        end = start - 1
    if others:
        notes[b""] = b"\n".join(reversed(others))
    return notes


def first_value(window: bytes, key: str, spaced: bool = True) -> str | None:
    for pattern in _patterns(key, spaced):
        at = window.find(pattern)
        if at >= 0:
            value = _string(window, at + len(pattern))
            if value is not None:
                return value or None
    return None


def last_value(window: bytes, key: str, spaced: bool = True) -> str | None:
    """The last value of a key; None also if it is empty."""
    for pattern in _patterns(key, spaced)[::-1]:
        for at in places_back(window, pattern):
            value = _string(window, at + len(pattern))
            if value is not None:
                return value or None
    return None


def line_at(window: bytes, at: int) -> tuple[int, int]:
    """Where the line around a place begins and ends."""
    end = window.find(b"\n", at)
    return window.rfind(b"\n", 0, at) + 1, len(window) if end < 0 else end


def places_of(window: bytes, pattern: bytes) -> Iterator[int]:
    at = window.find(pattern)
    while at >= 0:
        yield at
        at = window.find(pattern, at + len(pattern))


def places_back(window: bytes, pattern: bytes) -> Iterator[int]:
    """Like ``places_of``, but from the end, which is also faster."""
    at = window.rfind(pattern)
    while at >= 0:
        yield at
        at = window.rfind(pattern, 0, at)


@cache
def _patterns(key: str, spaced: bool) -> tuple[bytes, ...]:
    patterns = (f'"{key}":"'.encode(), f'"{key}": "'.encode())
    return patterns if spaced else patterns[:1]


def _string(window: bytes, start: int) -> str | None:
    """The string that begins at ``start``; None if its end is not in the window."""
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
        except DAMAGE:
            pass
    return text.decode("utf-8", "replace")
