"""Refused calls of tools: counted, named once each, told in words."""

from __future__ import annotations

import pytest

from segue.core.tools import LONGEST_NAME, MOST_NAMES, DeniedTools, distinct_names


@pytest.mark.parametrize(
    ("denied", "words"),
    [
        (DeniedTools(1), "1 tool call was refused"),
        (DeniedTools(1, ("Write",)), "1 tool call was refused: Write"),
        (DeniedTools(1_200, ("Write", "Bash")), "1,200 tool calls were refused: Write, Bash"),
    ],
)
def test_in_words(denied: DeniedTools, words: str) -> None:
    assert str(denied) == words


def test_sums_name_each_tool_once_in_order() -> None:
    assert DeniedTools(2, ("b", "a")) + DeniedTools() + DeniedTools(1, ("a", "c")) == DeniedTools(
        3, ("b", "a", "c")
    )


def test_names_are_bounded() -> None:
    assert len(distinct_names(str(n) for n in range(1_000))) == MOST_NAMES
    assert distinct_names(["", "x" * 10_000, ""]) == ("x" * LONGEST_NAME,)
