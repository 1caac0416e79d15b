"""Rows in columns that fit the terminal. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from segue.cli.widths import columns, fitted, padded

GAP = 2
Row = Sequence[str]


def lines(
    rows: Sequence[Row],
    width: int,
    *,
    right: Collection[int] = (),
    least: Sequence[int] = (),
    room: int = 10,
    longest: int = 40,
) -> Iterator[str]:
    """The heading is the first row. The last column takes what is left, and is cut to it.

    ``right``: columns that are set to the right. ``least``: those that a narrow terminal goes without, in
    this order, rather than leave the last column less than ``room``. A first cell wider than ``longest``
    has a line of its own, so that it can be copied; other cells are cut.
    """
    sizes = _sizes(rows, width, least, room, longest)
    for row in rows:
        cells = list(row)
        if columns(cells[0]) > sizes[0]:
            yield cells[0]
            cells[0] = ""
        yield _line(cells, sizes, right, width)


def _sizes(rows: Sequence[Row], width: int, least: Sequence[int], room: int, longest: int) -> list[int]:
    """How wide each column is but the last; 0: it is left out."""
    spans = [[columns(row[at]) for row in rows] for at in range(len(rows[0]) - 1)]
    spans[0] = [span for span in spans[0] if span <= longest]
    wanted = [min(max(span, default=0), longest) for span in spans]
    sizes = list(wanted)
    for at in least:
        if _taken(sizes) + room > width:
            sizes[at] = 0
    for at in reversed(least):  # what a wide one made room for comes back
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
