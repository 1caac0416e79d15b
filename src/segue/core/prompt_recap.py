"""A bounded tail of a conversation: the newest messages, and how the first request began.

The newest messages are taken first, whole as long as they fit; the oldest of them is shortened if that is
still useful. The first request is always included, if only its beginning: without it "go on" means nothing to
a new session.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core.model import Voice
from segue.core.prompt_messages import MessageText, message_parts
from segue.core.prompt_parts import Part, elide, size_of

LEAST = 1_000
"""The smallest bound, in bytes: below it there is only room for headings."""
USEFUL = 300
"""With fewer bytes, the beginning and the end of a message say nothing."""


class Recap(msgspec.Struct, frozen=True):
    """``messages``: how many messages the parts contain, whole or shortened."""

    parts: tuple[Part, ...] = ()
    messages: int = 0


class _Fitting(msgspec.Struct, frozen=True):
    voice: Voice
    quiet_at: bool
    most: int
    """The most bytes for a single message, so that one long answer does not displace all others."""


def recap(
    earlier: Sequence[MessageText], voice: Voice, max_bytes: int, *, reserved: int = 0, quiet_at: bool = False
) -> Recap:
    """What fits into ``max_bytes``; ``reserved`` of them are taken by what comes before it."""
    bound = max(max_bytes, LEAST)
    room = bound - reserved
    fitting = _Fitting(voice, quiet_at, bound // 2)
    whole = _whole(earlier, room, fitting)
    if whole is not None:
        return Recap(tuple(whole), len(earlier))
    first = next((at for at, each in enumerate(earlier) if each.message.sender == "user"), len(earlier))
    opening = _opening(earlier[first : first + 1], bound // 10, quiet_at)
    room -= size_of(opening, quiet_at) + size_of([_left_out(len(earlier))])
    tail, count = _tail(earlier, room, fitting)
    missing = len(earlier) - count
    if first >= missing:
        opening = []
    missing -= len(opening)
    gap = [_left_out(missing)] if missing else []
    return Recap((*opening, *gap, *tail), count + len(opening))


def _whole(earlier: Sequence[MessageText], room: int, fitting: _Fitting) -> list[Part] | None:
    """All messages, if they all fit."""
    taken: list[list[Part]] = []
    for spoken in reversed(earlier):
        parts = message_parts(spoken, fitting.voice)
        if not _fits(parts, room, fitting):
            return None
        taken.append(parts)
        room -= size_of(parts, fitting.quiet_at)
    return [part for parts in reversed(taken) for part in parts]


def _tail(earlier: Sequence[MessageText], room: int, fitting: _Fitting) -> tuple[list[Part], int]:
    """The newest messages that fit, and their number."""
    taken: list[list[Part]] = []
    for spoken in reversed(earlier):
        parts = message_parts(spoken, fitting.voice)
        allowed = min(fitting.most, room)
        if not _fits(parts, allowed, fitting):
            if taken and allowed < USEFUL:
                break
            parts = _shortened(spoken, allowed, fitting)
        taken.append(parts)
        room -= size_of(parts, fitting.quiet_at)
    return [part for parts in reversed(taken) for part in parts], len(taken)


def _fits(parts: Sequence[Part], room: int, fitting: _Fitting) -> bool:
    """The plain length is checked first, because escaping only adds to it."""
    return sum(len(part.text) for part in parts) <= room and size_of(parts, fitting.quiet_at) <= room


def _shortened(spoken: MessageText, limit: int, fitting: _Fitting) -> list[Part]:
    """A message within ``limit``: without its tools' output, then with less of its text."""
    said, *behind = message_parts(spoken, fitting.voice, tools=False)
    left = limit - (size_of(behind) if behind else 0)
    return [_fitted(said, left, fitting.quiet_at), *behind]


def _opening(first: Sequence[MessageText], limit: int, quiet_at: bool) -> list[Part]:
    heading = "user, at the beginning"
    return [_fitted(Part(heading, each.text), limit, quiet_at, ending=False) for each in first]


def _fitted(part: Part, limit: int, quiet_at: bool, *, ending: bool = True) -> Part:
    """The part within ``limit``. Escaping adds to the size, so this may take several tries."""
    allowed = limit - size_of([Part(part.heading)])
    while True:
        fitted = Part(part.heading, elide(part.text, allowed, ending=ending))
        excess = size_of([fitted], quiet_at) - limit
        if excess <= 0 or allowed <= 0:
            return fitted
        allowed -= excess


def _left_out(count: int) -> Part:
    return Part("1 earlier message left out" if count == 1 else f"{count:,} earlier messages left out")
