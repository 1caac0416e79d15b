"""Files of one record a line: from any place, in either direction, whatever the lines are."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.agents import jsonl
from segue.agents.jsonl import backwards, forwards

LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b" ")), max_size=30)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that lines lie across the borders of what is read at once."""
    monkeypatch.setattr(jsonl, "_FIRST", 7)
    monkeypatch.setattr(jsonl, "_MOST", 16)


@given(LINES, st.booleans())
@settings(max_examples=300, deadline=None)
def test_backwards_is_forwards_the_other_way_round(lines: list[bytes], ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    there = list(forwards(BytesIO(data)))
    assert list(backwards(BytesIO(data))) == there[::-1]
    assert [line.text for line in there] == [line for line in data.split(b"\n") if line]
    for line in there:
        assert line.text is not None
        assert data[line.start : line.start + len(line.text)] == line.text
        assert line.next == line.start + len(line.text) + line.whole


@given(LINES)
@settings(max_examples=200, deadline=None)
def test_any_line_is_a_place_to_go_on_from(lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    all_lines = list(forwards(BytesIO(data)))
    for n, line in enumerate(all_lines):
        assert list(forwards(BytesIO(data), line.next)) == all_lines[n + 1 :]
        assert list(backwards(BytesIO(data), line.start)) == all_lines[:n][::-1]


def test_a_line_without_its_break_is_not_whole() -> None:
    first, last = forwards(BytesIO(b"one\ntwo"))
    assert (first.whole, last.whole) == (True, False)
    assert [line.whole for line in backwards(BytesIO(b"one\ntwo"))] == [False, True]


def test_a_line_that_is_too_long_is_not_loaded_but_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LONGEST", 10)
    data = b"a\n" + b"x" * 50 + b"\nb\n"
    there = list(forwards(BytesIO(data)))
    assert [line.text for line in there] == [b"a", None, b"b"]
    assert [line.start for line in there] == [0, 2, 53]
    assert list(backwards(BytesIO(data))) == there[::-1]
