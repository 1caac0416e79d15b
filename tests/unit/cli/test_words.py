"""Figures, tool calls and failures in words."""

from __future__ import annotations

from typing import Any

import pytest

from segue.cli import words


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "?"),
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (11_749, "11.7k"),
        (250_000, "250k"),
        (3_140_000, "3.1M"),
    ],
)
def test_tokens(count: int | None, shown: str) -> None:
    assert words.tokens(count) == shown


@pytest.mark.parametrize(
    ("usd", "estimated", "shown"),
    [
        (None, False, "cost unknown"),
        (0.0234, False, "$0.023"),
        (0.0234, True, "~$0.023"),
        (31.4159, False, "$31.42"),
    ],
)
def test_money(usd: float | None, estimated: bool, shown: str) -> None:
    assert words.money(usd, estimated) == shown


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("Read", {"file_path": "src/auth.py", "limit": 10}, "Read src/auth.py"),
        ("Bash", {"command": "pytest -q\n  tests", "description": "run"}, "Bash pytest -q tests"),
        ("shell", {"command": ["ls", "-l"]}, "shell ls -l"),
        ("Odd", {"zzz": 5}, "Odd 5"),
        ("Bare", None, "Bare"),
        ("Text", "plain", "Text plain"),
        ("Empty", {}, "Empty"),
    ],
)
def test_a_tool_call_is_one_line(name: str, given: Any, shown: str) -> None:
    assert words.tool(name, given) == shown


def test_a_long_tool_call_is_cut() -> None:
    assert len(words.tool("Bash", {"command": "x" * 500}, 80)) == 80
