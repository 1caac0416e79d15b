"""Keys and tables are changed in the text of a file, and everything else stays byte by byte."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.config.toml_edit import GONE, Change, NotEditable, by_hand, edited

FILE = '''# mine
[continuity]   # how
modes = [
  "resume",  # first
  "fresh",
]

# the account for work
[accounts.work]
agent = "claude"   # the CLI
home = "~/.claude-work"

[accounts.work.env]
A = """
[accounts.fake]
"""

# private
[accounts.me]
agent = 'codex'
'''


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("", [Change(("accounts", "a", "agent"), "x")], '[accounts.a]\nagent = "x"\n'),
        ("# hi", [Change(("a", "b"), 1)], "# hi\n\n[a]\nb = 1\n"),
        ("[a]\nb = 1 # why\n", [Change(("a", "b"), 2)], "[a]\nb = 2 # why\n"),
        ("[a]\nb = '#' # why\n", [Change(("a", "b"), "#")], '[a]\nb = "#" # why\n'),
        ("[a]\nb = 1", [Change(("a", "c"), 2)], "[a]\nb = 1\nc = 2\n"),
        ("[a]\r\nb = 1\r\n[z]\r\n", [Change(("a", "c"), 2)], "[a]\r\nb = 1\r\nc = 2\r\n[z]\r\n"),
        ("[a]\nb = [\n1,\n]\nc = 3\n", [Change(("a", "b"), [2])], "[a]\nb = [2]\nc = 3\n"),
        ("[a]\n# note\n\n[z]\nb = 1\n", [Change(("a", "b"), 2)], "[a]\nb = 2\n# note\n\n[z]\nb = 1\n"),
        ('["a" . b]\nc = 1\n', [Change(("a", "b", "c"), 2)], '["a" . b]\nc = 2\n'),
        ("[a]\nb = 1\nc = 2\n", [Change(("a", "b"), GONE)], "[a]\nc = 2\n"),
        ("[a.b]\nc = 1\n# z is\n[z]\n", [Change(("a", "b"), GONE)], "# z is\n[z]\n"),
        ("[a]\nb.c = 1\nb.d = 1\ne = 1\n", [Change(("a", "b"), GONE)], "[a]\ne = 1\n"),
        ("[a]\nb = 1\n", [Change(("x", "y"), GONE)], "[a]\nb = 1\n"),
    ],
)
def test_only_what_is_meant_changes(text: str, changes: list[Change], expected: str) -> None:
    assert edited(text, changes) == expected


def test_a_table_goes_with_the_tables_below_it() -> None:
    new = edited(FILE, [Change(("accounts", "work"), GONE)])
    assert tomllib.loads(new)["accounts"] == {"me": {"agent": "codex"}}
    assert "# the account for work" in new, "a comment above it may be about more"
    assert new.endswith("# private\n[accounts.me]\nagent = 'codex'\n")
    assert new.startswith(FILE[: FILE.index("[accounts.work]")])


def test_a_heading_inside_a_text_is_none() -> None:
    new = edited(FILE, [Change(("accounts", "fake", "agent"), "x")])
    assert new == FILE + '\n[accounts.fake]\nagent = "x"\n'


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ('accounts = { work = { agent = "a" } }\n', Change(("accounts", "work", "home"), "/h")),
        ("[accounts]\nwork.agent = 'a'\n", Change(("accounts", "work", "agent"), "b")),
        ("[accounts]\nwork = { agent = 'a' }\n", Change(("accounts", "work", "agent"), "b")),
        ("accounts = 3\n", Change(("accounts", "work", "agent"), "b")),
        ("accounts = { work = { agent = 'a' }, b = { agent = 'a' } }\n", Change(("accounts", "b"), GONE)),
    ],
)
def test_another_form_is_refused(text: str, change: Change) -> None:
    with pytest.raises(NotEditable):
        edited(text, [change])


def test_what_to_write_is_said() -> None:
    said = by_hand([Change(("accounts", "a", "agent"), "x"), Change(("accounts", "a.b"), GONE)])
    assert said == 'write agent = "x" under [accounts.a]; remove accounts.a.b'


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES: st.SearchStrategy[Any] = st.one_of(
    WORDS, st.lists(WORDS, max_size=3), st.dictionaries(WORDS, WORDS, max_size=3), st.integers(0, 9)
)


@given(WORDS, VALUES)
def test_any_value_arrives(key: str, value: Any) -> None:
    new = edited(FILE, [Change(("accounts", "me", key), value)])
    assert tomllib.loads(new)["accounts"]["me"] == {"agent": "codex", key: value} | (
        {"agent": value} if key == "agent" else {}
    )
