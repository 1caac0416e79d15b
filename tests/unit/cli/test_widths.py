"""How much room a text takes, and how it is made to fit."""

from __future__ import annotations

import pytest

from segue.cli.render.table import columns, ending, fitted, joined, padded, wrapped


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("title", 5, "title"),
        ("title", 4, "tit…"),
        ("a title", 3, "a…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("title", 1, "…"),
        ("title", 0, ""),
        ("title", -3, ""),
        ("", 0, ""),
    ],
)
def test_what_is_cut_ends_with_a_mark(text: str, width: int, shown: str) -> None:
    assert fitted(text, width) == shown
    assert columns(shown) <= max(width, 0)


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("/a/b/c", 6, "/a/b/c"),
        ("/a/b/c", 4, "…b/c"),
        ("/日本/語", 5, "…/語"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_of_a_path_the_end_is_kept(text: str, width: int, shown: str) -> None:
    assert ending(text, width) == shown
    assert columns(shown) <= width


@pytest.mark.parametrize(
    ("text", "right", "shown"),
    [("ab", False, "ab  "), ("ab", True, "  ab"), ("日", True, "  日"), ("abcde", True, "abcde")],
)
def test_padded(text: str, right: bool, shown: str) -> None:
    assert padded(text, 4, right=right) == shown


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (40, ["── claude · resume · $0.004 · 0.9 s"]),
        (34, ["── claude · resume · $0.004", "   0.9 s"]),
        (20, ["── claude · resume", "   $0.004 · 0.9 s"]),
        (4, ["── claude", "   resume", "   $0.004", "   0.9 s"]),
    ],
)
def test_parts_are_not_broken(width: int, lines: list[str]) -> None:
    assert joined(["── claude", "resume", "$0.004", "0.9 s"], width, 3) == lines


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, ["→ "]),
        ("one two", 10, ["→ one two"]),
        ("one two three", 10, ["→ one two", "  three"]),
        ("see /a/long/path/name now", 10, ["→ see", "  /a/long/path/name", "  now"]),
        ("日本 語", 6, ["→ 日本", "  語"]),
    ],
)
def test_wrapped(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width, 2, "→ ") == lines
