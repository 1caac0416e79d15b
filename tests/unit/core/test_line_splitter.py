"""Whole lines come out, whatever pieces they came in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.stream import LineSplitter, Oversize, StreamLine


def framed(chunks: list[bytes], cap: int = 1 << 20) -> list[StreamLine]:
    lines = LineSplitter(cap)
    return [line for chunk in chunks for line in lines.feed(chunk)] + lines.finish()


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b""], []),
        ([b"a\n"], [b"a"]),
        ([b"a"], [b"a"]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"a", b"b", b"\n", b"c\n"], [b"ab", b"c"]),
        ([b"\n\n"], [b"", b""]),
        ([b"a\n", b"\n", b"b\n"], [b"a", b"", b"b"]),
        ([b"a\r\nb\n"], [b"a\r", b"b"]),
        ([b"\xff\xfe\n\x00"], [b"\xff\xfe", b"\x00"]),
    ],
)
def test_cuts_at_newlines(chunks: list[bytes], expected: list[bytes]) -> None:
    assert framed(chunks) == expected


def test_gives_a_line_as_soon_as_it_is_whole() -> None:
    lines = LineSplitter()
    assert lines.feed(b"on") == []
    assert lines.feed(b"e\ntw") == [b"one"]
    assert lines.feed(b"o\n") == [b"two"]
    assert lines.finish() == []


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_an_oversize_line_is_skipped_and_the_next_are_right(size: int) -> None:
    stream = b"before\n" + b"x" * 50 + b"\nafter\n" + b"y" * 11
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    got = framed(chunks, cap=10)
    assert [line.length if isinstance(line, Oversize) else line for line in got] == [
        b"before",
        50,
        b"after",
        11,
    ]


def test_a_line_of_exactly_the_cap_passes() -> None:
    assert framed([b"x" * 10 + b"\n", b"y" * 10], cap=10) == [b"x" * 10, b"y" * 10]


def test_an_oversize_line_shows_how_it_began_and_keeps_no_more() -> None:
    (line,) = framed([b"start" + b"x" * 5_000_000, b"x" * 5_000_000 + b"\n"], cap=1_000_000)
    assert isinstance(line, Oversize)
    assert line.length == 10_000_005
    assert line.head.startswith(b"start")
    assert len(line.head) <= 2_000


def test_a_huge_line_in_small_pieces_comes_out_whole() -> None:
    lines, piece = LineSplitter(), b"x" * 1_000
    assert all(lines.feed(piece) == [] for _ in range(20_000))
    assert lines.feed(b"\n") == [b"x" * 20_000_000]


@given(st.binary(max_size=200), st.lists(st.integers(1, 50), max_size=20), st.integers(1, 60))
def test_any_cutting_gives_the_same_lines(stream: bytes, sizes: list[int], cap: int) -> None:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(stream[at : at + size])
        at += size
    chunks.append(stream[at:])
    expected = stream.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [len(e) if len(e) > cap else e for e in expected] == [
        line.length if isinstance(line, Oversize) else line for line in framed(chunks, cap)
    ]
