"""Single values out of the beginning and the end of a session's file, found by their keys, not by decoding.

A window may begin or end in mid-line. A key is known by its quotes and its colon: in what somebody said,
quotes are escaped, so only a field can be found. Titles and directories come out as in the list of Claude's
own SDK, which looks for them in the same windows; a last value written with a space behind its colon counts
before one without, as it does there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from segue.agents.reader import HEAD, TAIL

GLANCE = 2048
_ESCAPE = ord("\\")


class Windows(NamedTuple):
    """A file's two ends. Where they meet, ``whole`` is all of it."""

    head: bytes
    tail: bytes
    whole: bytes | None
    size: int


def look(path: Path) -> Windows:
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= HEAD + TAIL:
            whole = file.read(HEAD + TAIL) or b""
            return Windows(whole[:HEAD], whole[-TAIL:], whole, len(whole))
        head = file.read(HEAD) or b""
        file.seek(size - TAIL)
        return Windows(head, file.read(TAIL) or b"", None, size)


def is_spaced(seen: Windows) -> bool:
    """Whether somebody else's JSON, with spaces behind its colons, is in it; a glance must do."""
    return any(b'": "' in part for part in (seen.head[:GLANCE], seen.tail[:GLANCE], seen.tail[-GLANCE:]))


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
    for pattern in reversed(_patterns(key, spaced)):
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


def _patterns(key: str, spaced: bool) -> list[bytes]:
    patterns = [f'"{key}":"'.encode()]
    return [*patterns, f'"{key}": "'.encode()] if spaced else patterns


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
