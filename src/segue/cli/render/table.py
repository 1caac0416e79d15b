"""Text that fits the terminal: how many columns it takes, cut, wrapped, or in a table. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Sequence

GAP = 2
Row = Sequence[str]
MARKS_PER_COLUMN = 8
"""How many characters that take no column a line can have per column of its width."""


def columns(text: str) -> int:
    """How many columns the text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_span, text))


def cut(text: str, width: int) -> str:
    """The longest beginning of the text that fits the width."""
    return next(wrap_rows(text, width))


def fitted(text: str, width: int) -> str:
    """The text, or as much of it as fits with a ``…`` after it."""
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
    """The text, padded with spaces to the width."""
    blanks = " " * (width - columns(text))
    return blanks + text if right else text + blanks


def wrap_rows(text: str, width: int) -> Iterator[str]:
    """The text as lines of this width. The last one is shorter, and can be empty."""
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


def positions(names: Sequence[str], *wanted: str) -> tuple[int, ...]:
    """Where the wanted columns are among all columns."""
    return tuple(names.index(name) for name in wanted)


def table_lines(
    rows: Sequence[Row],
    width: int,
    *,
    right: Collection[int] = (),
    least: Sequence[int] = (),
    room: int = 10,
    longest: int = 40,
) -> Iterator[str]:
    """The heading is the first row. The last column gets the remaining width, and is cut to it.

    ``right``: columns that are aligned to the right. ``least``: columns that are left out, in this order,
    while the last column would have less than ``room``. A first cell wider than ``longest`` gets a separate
    line, so that it can be copied; other cells are cut.
    """
    sizes = _sizes(rows, width, least, room, longest)
    for row in rows:
        cells = list(row)
        if columns(cells[0]) > sizes[0]:
            yield cells[0]
            cells[0] = ""
        yield _line(cells, sizes, right, width)


def _sizes(rows: Sequence[Row], width: int, least: Sequence[int], room: int, longest: int) -> list[int]:
    """How wide each column is, except the last; 0: it is left out."""
    spans = [[columns(row[at]) for row in rows] for at in range(len(rows[0]) - 1)]
    spans[0] = [span for span in spans[0] if span <= longest]
    wanted = [min(max(span, default=0), longest) for span in spans]
    sizes = list(wanted)
    for at in least:
        if _taken(sizes) + room > width:
            sizes[at] = 0
    for at in reversed(least):  # a narrow column fits again if a wide one was left out after it
        with_it = [wanted[at] if at == each else size for each, size in enumerate(sizes)]
        if _taken(with_it) + room <= width:
            sizes = with_it
    return sizes


def _taken(sizes: Sequence[int]) -> int:
    return sum(size + GAP for size in sizes if size)


def _line(cells: Sequence[str], sizes: Sequence[int], right: Collection[int], width: int) -> str:
    shown = (
        padded(fitted(cells[at], size), size, right=at in right) for at, size in enumerate(sizes) if size
    )
    last = fitted(cells[-1], width - _taken(sizes))
    return (" " * GAP).join((*shown, last)).rstrip()


def _span(char: str) -> int:
    if char.isascii():
        return 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else int(not unicodedata.combining(char))
