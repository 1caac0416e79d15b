"""What was said in a session, without what was abandoned; and short names for ids."""

from __future__ import annotations

from typing import Any

from segue.core.transcript import Entry
from segue.sessions.catalog import short_names
from segue.sessions.reading import in_force, session_dialogue


def entry(kind: Any, text: str, native: str = "", parent: str | None = None, **more: Any) -> Entry:
    return Entry(id=f"{text}.0", kind=kind, text=text, native=native, parent=parent, **more)


def texts(entries: list[Entry]) -> list[str]:
    return [each.text for each in in_force(entries)]


def test_pieces_of_an_answer_are_one_message() -> None:
    said = session_dialogue(
        [
            entry("user", "hi"),
            entry("assistant", "let me look"),
            entry("call", "ls"),
            entry("result", "files"),
            entry("assistant", "done"),
            entry("user", "context", inserted=True),
            entry("user", "thanks"),
        ]
    )
    assert [(each.sender, each.text) for each in said] == [
        ("user", "hi"),
        ("assistant", "let me look\n\ndone"),
        ("user", "thanks"),
    ]


def test_what_somebody_went_back_from_is_not_in_force() -> None:
    entries = [
        entry("user", "u1", "a"),
        entry("assistant", "a1", "b", "a"),
        entry("user", "wrong way", "c", "b"),
        entry("assistant", "wrong answer", "d", "c"),
        entry("user", "right way", "e", "b"),
        entry("assistant", "right answer", "f", "e"),
    ]
    assert texts(entries) == ["u1", "a1", "right way", "right answer"]


def test_a_conversation_begun_anew_in_the_same_file_leaves_the_first_behind() -> None:
    entries = [
        entry("user", "u1", "a"),
        entry("assistant", "a1", "b", "a"),
        entry("user", "anew", "c"),
        entry("assistant", "a2", "d", "c"),
    ]
    assert texts(entries) == ["anew", "a2"]


def test_what_a_summary_stands_for_was_said_all_the_same() -> None:
    entries = [
        entry("user", "u1", "a"),
        entry("assistant", "a1", "b", "a"),
        entry("state", "", "s", None, label="compaction"),
        entry("boundary", "summary", "t", "s"),
        entry("user", "u2", "c", "t"),
    ]
    assert texts(entries) == ["u1", "a1", "", "summary", "u2"]


def test_a_break_in_the_chain_loses_nothing() -> None:
    entries = [
        entry("user", "u1", "a"),
        entry("assistant", "a1", "b", "a"),
        entry("user", "u2", "d", "lost"),
        entry("assistant", "a2", "e", "d"),
    ]
    assert texts(entries) == ["u1", "a1", "u2", "a2"]


def test_a_format_without_a_chain_is_taken_as_it_stands() -> None:
    entries = [entry("user", "u1", "a"), entry("assistant", "a1", "b")]
    assert texts(entries) == ["u1", "a1"]


def test_a_ring_of_parents_ends_somewhere() -> None:
    assert texts([entry("user", "u1", "a", "b"), entry("user", "u2", "b", "a")]) == ["u1", "u2"]


def test_a_short_name_is_as_long_as_it_must_be() -> None:
    ids = ["01a1e27e-c111", "01a1e27e-d222", "ffff0000-1111"]
    assert short_names(ids) == {
        "01a1e27e-c111": "01a1e27e-c",
        "01a1e27e-d222": "01a1e27e-d",
        "ffff0000-1111": "ffff0000",
    }
