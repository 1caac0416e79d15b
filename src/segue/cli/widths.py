"""How much room a text takes on a terminal, and how it is made to fit. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

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
