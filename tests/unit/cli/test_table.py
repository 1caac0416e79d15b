"""Columns that fit the terminal: what is left out, what is cut, and what has a line of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from segue.cli.render import table
from segue.cli.render.table import columns

ROWS = [
    ("key", "agents", "cost", "title"),
    ("a", "claude, codex", "$1.25", "a title of some length"),
    ("bb", "vibe", "–", "日本語のタイトル"),
]


def shown(width: int, rows: Sequence[table.Row] = ROWS) -> list[str]:
    return list(table.table_lines(rows, width, right=(2,), least=(1, 2), room=8, longest=20))


def test_with_room_for_all() -> None:
    assert shown(60) == [
        "key  agents          cost  title",
        "a    claude, codex  $1.25  a title of some length",
        "bb   vibe               –  日本語のタイトル",
    ]


def test_columns_are_left_out_and_titles_cut() -> None:
    assert shown(30) == [
        "key   cost  title",
        "a    $1.25  a title of some l…",
        "bb       –  日本語のタイトル",
    ]
    assert shown(16) == ["key  title", "a    a title of…", "bb   日本語のタ…"]


def test_a_column_comes_back_where_a_wider_one_has_gone() -> None:
    rows = [("key", "a", "directory", "title"), ("k", "1", "/some/very/long/place", "words")]
    assert list(table.table_lines(rows, 20, least=(1, 2), room=8)) == ["key  a  title", "k    1  words"]


def test_a_first_cell_that_is_too_long_stays_whole_on_a_line_of_its_own() -> None:
    rows = [*ROWS, ("k" * 30, "codex", "$2", "words")]
    assert shown(60, rows)[3:] == ["k" * 30, "     codex             $2  words"]
    assert shown(60, rows)[:3] == shown(60), "and makes no column wider"


@pytest.mark.parametrize("width", [10, 16, 25, 40, 80])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    rows = [*ROWS, ("c", "x" * 90, "$2", "y" * 90)]
    assert max(columns(line) for line in shown(width, rows)) <= width
