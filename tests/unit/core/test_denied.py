"""Refused calls of tools: counted, named once each, told in words."""

from __future__ import annotations

import pytest

from segue.core.denied import LONGEST, NAMES, Denied, distinct


@pytest.mark.parametrize(
    ("denied", "words"),
    [
        (Denied(1), "1 tool call was refused"),
        (Denied(1, ("Write",)), "1 tool call was refused: Write"),
        (Denied(1_200, ("Write", "Bash")), "1,200 tool calls were refused: Write, Bash"),
    ],
)
def test_in_words(denied: Denied, words: str) -> None:
    assert str(denied) == words


def test_sums_name_each_tool_once_in_order() -> None:
    assert Denied(2, ("b", "a")) + Denied() + Denied(1, ("a", "c")) == Denied(3, ("b", "a", "c"))


def test_names_are_bounded() -> None:
    assert len(distinct(str(n) for n in range(1_000))) == NAMES
    assert distinct(["", "x" * 10_000, ""]) == ("x" * LONGEST,)
