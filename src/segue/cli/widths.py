"""How much room a text takes on a terminal, and how it is made to fit. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

MARKS_PER_COLUMN = 8
"""So many characters that take no column may stand in one; then a line is full."""


def columns(text: str) -> int:
    """How many columns the text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_span, text))


def cut(text: str, width: int) -> str:
    """The longest beginning of the text that fits the width."""
    return next(rows(text, width))


def fitted(text: str, width: int) -> str:
    """The text, or as much of it as fits with a ``…`` behind it."""
    if columns(text) <= width:
        return text
    return cut(text, width - 1).rstrip() + "…" if width > 1 else "…"[:width]


def ending(text: str, width: int) -> str:
    """The text, or as much of its end as fits with a ``…`` before it."""
    if columns(text) <= width:
        return text
    return "…" + cut(text[::-1], width - 1)[::-1] if width > 1 else "…"[:width]


def joined(parts: Sequence[str], width: int, indent: int, between: str = " · ") -> list[str]:
    """The parts on as many lines as they need; all but the first line are indented. No part is broken."""
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]}{between}{part}"
        if columns(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(" " * indent + part)
    return lines


def wrapped(text: str, width: int, indent: int = 0, lead: str = "") -> list[str]:
    """The text on lines of whole words: the first begins with ``lead``, the others are indented. A word that
    is too long stays whole: it may be a path to copy."""
    first, *others = text.split() or [""]
    return joined([lead + first, *others], width, indent, " ")


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text with blanks up to the width."""
    blanks = " " * (width - columns(text))
    return blanks + text if right else text + blanks


def rows(text: str, width: int) -> Iterator[str]:
    """The text as lines of this width; the last of them is not full."""
    if text.isascii():
        yield from (text[at : at + width] for at in range(0, len(text) - len(text) % width, width))
        yield text[len(text) - len(text) % width :]
        return
    start = used = 0
    for at, char in enumerate(text):
        span = _span(char)
        used += span
        if used > width or at - start >= width * MARKS_PER_COLUMN:
            yield text[start:at]
            start, used = at, span
    if used == width:
        yield text[start:]
        start = len(text)
    yield text[start:]


def _span(char: str) -> int:
    if char.isascii():
        return 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else int(not unicodedata.combining(char))
