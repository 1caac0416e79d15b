"""What is read without click is what click reads; everything unusual is left to click."""

from __future__ import annotations

from typing import Any

import pytest

from segue.cli import conversation_change
from segue.cli.change_options import WORDS, change_call
from segue.cli.commands import cli

PLAIN: list[list[str]] = [
    ["edit", "k", "#1"],
    ["edit", "k", "#1", "text"],
    ["edit", "--cut", "k", "#1", "text = a"],
    ["edit", "k", "#1", ""],
    ["truncate", "k", "#1"],
    ["undo", "k"],
    ["fork", "k"],
    ["fork", "k", "new", "--at", "#1"],
    ["fork", "--at=#1", "k"],
    ["import", "-"],
    ["import", "file", "--key", "k"],
    ["rm", "k", "-y"],
    ["rm", "--yes", "a", "b", "a"],
]
UNUSUAL: list[list[str]] = [
    [],
    ["run", "k", "hi"],
    ["edit", "k"],
    ["edit", "k", "#1", "a", "b"],
    ["edit", "k", "#1", "--help"],
    ["edit", "k", "#1", "--", "-x"],
    ["edit", "k", "#1", "x", "--cut=1"],
    ["undo", "-h"],
    ["fork", "k", "--at"],
    ["fork", "k", "--at="],
    ["fork", "k", "--at", "--help"],
    ["rm"],
    ["rm", "-yy", "k"],
]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that were made, with every parameter."""
    import inspect

    calls: list[Any] = []
    for name in WORDS:
        name = "import_" if name == "import" else name
        signature = inspect.signature(getattr(conversation_change, name))

        def note(*args: Any, _name: str = name, _like: inspect.Signature = signature, **options: Any) -> None:
            bound = _like.bind(*args, **options)
            bound.apply_defaults()
            calls.append((_name, {k: list(v) if k == "keys" else v for k, v in bound.arguments.items()}))

        monkeypatch.setattr(conversation_change, name, note)
    return calls


@pytest.mark.parametrize("args", PLAIN, ids=" ".join)
def test_a_plain_call_is_read_as_click_reads_it(args: list[str], called: list[Any]) -> None:
    read = change_call(args, {})
    assert read is not None
    read()
    cli.main(args, prog_name="segue", standalone_mode=False)
    first, second = called
    assert first == second


@pytest.mark.parametrize("args", UNUSUAL, ids=" ".join)
def test_everything_else_is_left_to_click(args: list[str]) -> None:
    assert change_call(args, {}) is None


def test_a_completion_is_left_to_click() -> None:
    assert change_call(["undo", "k"], {"_SEGUE_COMPLETE": "bash_source"}) is None
