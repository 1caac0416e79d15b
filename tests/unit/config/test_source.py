from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.config.source import key_lines, line_of

TEXT = '''\
# [not.a.table] = 1
top = 1
[continuity]   # a comment with = and [
modes = [
  "resume",  # "]
  'fresh',
]
graft = "off = [x]"

[accounts.work]
env = { A = "1", "B C" = "}" }
note = """
fake = 1
[fake]
"""
"quoted.key" = 3.14

[prices."gpt-*"]
input = 1.5
dated = 2026-01-02

[agents.t]
text = [
  { path = "$.a", when = { type = "x" } },
]
a.b.c = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("continuity",), 3),
        (("continuity", "modes"), 4),
        (("continuity", "graft"), 8),
        (("accounts",), 10),
        (("accounts", "work", "env", "B C"), 11),
        (("accounts", "work", "note"), 12),
        (("accounts", "work", "quoted.key"), 16),
        (("prices", "gpt-*", "dated"), 20),
        (("agents", "t", "text"), 23),
        (("agents", "t", "text", "when", "type"), 24),
        (("agents", "t", "a", "b", "c"), 26),
        (("agents", "t", "missing"), 22),
        (("fake",), None),
        (("not",), None),
    ],
)
def test_a_key_is_found_on_its_line(path: tuple[str, ...], line: int | None) -> None:
    assert line_of(TEXT, path) == line


def test_the_example_is_toml_and_no_key_is_missed() -> None:
    assert set(_paths(tomllib.loads(TEXT))) <= set(key_lines(TEXT))


@given(st.text(alphabet="ab=\"'[]{}.,#\n\\ 1", max_size=60))
def test_the_scanner_ends_on_any_text(text: str) -> None:
    lines = key_lines(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert {path[:1] for path in _paths(table)} <= set(lines) or "\\" in text


def _paths(table: dict[str, Any], base: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in table.items():
        found.append((*base, key))
        if isinstance(value, dict):
            found.extend(_paths(value, (*base, key)))
    return found
