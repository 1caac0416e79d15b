"""A summary of a session, from the first and the last 64 KB of its file.

    ends = read_ends(path)
    brief = brief_of(stored, windows_of(ends, entries))

``windows_of`` is for formats with one record per line. Others make the two ``Window`` objects themselves. A
``Brief`` made here contains what the entries show; the archive adds what a header shows (directory, model,
parent, ...) with ``msgspec.structs.replace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from segue.agents.base import HEAD, TAIL, StoredSession
from segue.core.transcript import Brief, Entry, is_message
from segue.core.verdicts import Said, say

Decode = Callable[[bytes, int], Sequence[Entry]]
"""The entries of one line, from its text and its place."""


class Ends(msgspec.Struct, frozen=True):
    """The beginning of a file, its end, and its size. An empty end: the beginning is the whole file."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bool:
        return len(self.head) >= self.size

    @property
    def last(self) -> bytes:
        """The window that contains the end of the file."""
        return self.head if self.whole else self.tail


class Window(msgspec.Struct, frozen=True):
    """The entries in a part of a session, and how many bytes of the file it takes."""

    entries: Sequence[Entry] = ()
    size: int = 0


def read_ends(path: Path, head: int = HEAD, tail: int = TAIL) -> Ends:
    """The ends of a file. Raises ``OSError``."""
    with path.open("rb", buffering=0) as file:
        return ends_of(file, head, tail)


def ends_of(file: IO[bytes], head: int = HEAD, tail: int = TAIL) -> Ends:
    """The ends of an open file."""
    size = file.seek(0, 2)
    file.seek(0)
    if size <= head + tail:
        whole = file.read(head + tail)
        return Ends(whole, b"", len(whole))
    begin = file.read(head)
    file.seek(size - tail)
    return Ends(begin, file.read(tail), size)


def lines_of(ends: Ends) -> Iterator[tuple[int, bytes]]:
    """The complete lines in the first window, then those in the last, each with its place. Without a last
    line that is still being written, and without lines that a window cuts."""
    yield from _lines(ends.head, 0)
    if not ends.whole:
        cut = ends.tail.find(b"\n") + 1
        yield from _lines(ends.tail[cut:], ends.size - len(ends.tail) + cut)


def windows_of(ends: Ends, decode: Decode) -> tuple[Window, ...]:
    """The windows of a file with one record per line. If the file is longer than both, one may be empty."""
    parts: dict[bool, list[tuple[int, bytes]]] = {False: [], True: []}
    for start, line in lines_of(ends):
        parts[start >= len(ends.head)].append((start, line))
    shown = [parts[False]] if ends.whole else list(parts.values())
    return tuple(
        Window([entry for start, line in part for entry in decode(line, start)], _size(part))
        for part in shown
    )


def brief_of(stored: StoredSession, windows: Sequence[Window], size: int | None = None) -> Brief:
    """What the windows show. ``size``: of the data that the windows are part of, if that is not the file."""
    entries = [entry for window in windows for entry in window.entries]
    messages = [entry for entry in entries if is_message(entry)]
    prompts = [entry.text.strip() for entry in messages if entry.kind == "user"]
    first, last = _prompts(windows, prompts)
    seen, total = sum(window.size for window in windows), size or stored.size
    estimated = seen < total and len(windows) > 1
    answered = [entry for entry in entries if entry.tokens is not None and not entry.side]
    return Brief(
        title=first,
        title_by="prompt" if first is not None else None,
        first_prompt=first,
        last_prompt=last,
        messages=round(len(messages) * total / seen) if estimated and seen else len(messages),
        messages_estimated=estimated,
        created_ms=next((entry.at_ms for entry in entries if entry.at_ms is not None), None),
        last_used_ms=_newest(entries) or stored.changed_ns // 1_000_000,
        model=next((entry.model for entry in reversed(entries) if entry.model and not entry.side), None),
        context=answered[-1].tokens if answered else None,
        empty=not messages and not estimated,
    )


def unreadable_brief(error: OSError) -> Brief:
    why = error.strerror or str(error)
    return troubled(Brief(), say(f"it cannot be read: {why}", "session.unreadable", why=why))


def troubled(brief: Brief, what: Said) -> Brief:
    """The brief of a session that cannot be read in full."""
    return msgspec.structs.replace(brief, trouble=what.text, trouble_clauses=what.clauses)


def _lines(window: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    *lines, _ = window.split(b"\n")
    for line in lines:
        if line:
            yield start, line
        start += len(line) + 1


def _size(part: Sequence[tuple[int, bytes]]) -> int:
    return sum(len(line) + 1 for _, line in part)


def _prompts(windows: Sequence[Window], prompts: Sequence[str]) -> tuple[str | None, str | None]:
    """The first and the last prompt. The first only if it is in the first window."""
    begins = bool(windows) and any(is_message(entry) and entry.kind == "user" for entry in windows[0].entries)
    return prompts[0] if begins else None, prompts[-1] if prompts else None


def _newest(entries: Sequence[Entry]) -> int | None:
    return next((entry.at_ms for entry in reversed(entries) if entry.at_ms is not None), None)
