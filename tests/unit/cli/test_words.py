"""Figures, tool calls and failures in words."""

from __future__ import annotations

import time
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 日本 😀", "plain äöü 日本 😀"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[?1049h\x1b[2J\x1b[1;1Hhi", "hi"),
        ("\x1b]0;title\x07hi", "hi"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\hi", "hi"),
        ("\x9b31mred \x9d0;t\x9chi", "red hi"),
        ("\x1bchi \x1b(B\x1b7", "hi "),
        ("a\x08b\x07c\x00d\x7fe\x85f", "abcdef"),
        ("dos\r\nand mac\rend", "dos\nand mac\nend"),
        ("\x1b]0;never ended", "]0;never ended"),
        ("\x1b\x1b[0m[31mx", "[31mx"),
        ("half \x1b", "half "),
        ("right\u202eleft\u2066", "rightleft"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert words.harmless(text) == shown


def test_a_huge_output_costs_no_time() -> None:
    for text in ("\x1b]" * 100_000, "\x1b[" + "0" * 200_000, "\x1b" * 200_000):
        began = time.monotonic()
        assert "\x1b" not in words.harmless(text)
        assert words.tool("Bash", {"command": text}).isprintable()
        assert time.monotonic() - began < 1


def test_a_tool_call_fits_where_there_is_no_room() -> None:
    assert words.tool("Bash", {"command": "ls"}, 0) == "…"


def test_what_a_failing_cli_said_is_harmless() -> None:
    assert words.result(1, "\x1b[31mError:\x1b[0m\r\nno\x07") == "exit 1: Error: no"
