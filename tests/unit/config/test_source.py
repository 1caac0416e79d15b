from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.config.source import line_of

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

[lists]
nested = [
  [1],
  ["[fake]", 2],
]
after = 1
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
        (("lists", "nested"), 29),
        (("lists", "after"), 33),
        (("fake",), None),
        (("not",), None),
    ],
)
def test_a_key_is_found_on_its_line(path: tuple[str, ...], line: int | None) -> None:
    assert line_of(TEXT, path) == line


def test_the_example_is_toml_and_no_key_is_missed() -> None:
    lines = TEXT.split("\n")
    for path in _paths(tomllib.loads(TEXT)):
        line = line_of(TEXT, path)
        assert line is not None, path
        assert path[-1] in lines[line - 1]


@given(st.text(alphabet="ab=\"'[]{}.,#\n\\ 1", max_size=60))
def test_the_search_ends_on_any_text(text: str) -> None:
    line = line_of(text, ("a", "b"))
    assert line is None or 1 <= line <= text.count("\n") + 1
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    for path in _paths(table):
        assert line_of(text, path[:1]) is not None or "\\" in text


def _paths(table: dict[str, Any], base: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in table.items():
        found.append((*base, key))
        if isinstance(value, dict):
            found.extend(_paths(value, (*base, key)))
    return found
