"""Events are written beside the turn: who records them never waits for the store, nor fails because of it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from segue.core import events as ev
from segue.store.store import Store, open_store
from segue.turns import recorder as recording
from segue.turns.recorder import Recorder
from tests.integration.store.talking import Talk

PATIENCE_S = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(None, tmp_path / "segue.db") as opened:
        yield opened


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path / "segue.db")) as db:
        db.execute("BEGIN EXCLUSIVE")
        yield
        db.rollback()


def texts(store: Store, turn: str) -> list[str]:
    return [msgspec.json.decode(event)["text"] for _, _, event in store.events(turn)]


def test_events_wait_while_the_store_is_away(store: Store, tmp_path: Path) -> None:
    turn, heard = Talk(store, "t").receive("hi")[1].id, list[ev.Event]()
    recorder = Recorder(store, turn, heard.append)
    with locked(tmp_path):
        for n in range(200):
            recorder(ev.Text(str(n)))
        assert len(heard) == 200  # and the store is still away
        assert not recorder.finish(0.1)
    assert recorder.finish(PATIENCE_S)
    assert texts(store, turn) == [str(n) for n in range(200)]
    assert recorder.give_up() == 0


def test_where_events_found_no_room_it_is_marked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "ROOM_ROWS", 5)
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    with locked(tmp_path):
        for n in range(1, 21):
            recorder(ev.Text(str(n)))
    assert recorder.finish(PATIENCE_S)
    recorder(ev.Text("21"))
    assert recorder.finish(PATIENCE_S)
    *first, mark, last = texts(store, turn)
    assert (first, last) == (["1", "2", "3", "4", "5"], "21")
    assert mark == "15 events are not recorded here: the store was away"
    assert [seq for seq, _, _ in store.events(turn)] == [1, 2, 3, 4, 5, 20, 21]


def test_a_call_of_a_tool_is_written_although_nothing_follows_it(store: Store) -> None:
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    recorder(ev.ToolCall("1", "Bash"))
    assert recorder.finish(PATIENCE_S)
    assert store.tool_events([]) == {}
    assert [msgspec.json.decode(event)["type"] for _, _, event in store.events(turn)] == ["tool-call"]


def test_who_gives_up_is_told_what_is_missing(store: Store, tmp_path: Path) -> None:
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    with locked(tmp_path):
        recorder(ev.Text("1"))
        recorder(ev.Text("2"))
        assert not recorder.finish(0.1)
        assert recorder.give_up() == 2


def test_what_arrived_of_a_text_that_was_broken_off_is_written(store: Store) -> None:
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    for event in (
        ev.TextDelta("who"),
        ev.TextDelta("le"),
        ev.Text("whole"),
        ev.TextDelta("br"),
        ev.TextDelta("oken"),
    ):
        recorder(event)
    assert recorder.finish(PATIENCE_S)
    assert recorder.finish(PATIENCE_S)
    assert texts(store, turn) == ["whole", "broken"]


@pytest.mark.parametrize("event", [ev.Session("s", "m", "/w"), ev.End(True, "whole"), ev.Retry(1, 2, 3, "")])
def test_what_was_begun_again_or_answered_is_not_written_twice(store: Store, event: ev.Event) -> None:
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    recorder(ev.TextDelta("who"))
    recorder(event)
    assert recorder.finish(PATIENCE_S)
    assert len(store.events(turn)) == 1


def test_an_id_that_is_repeated_does_not_begin_a_text_again(store: Store) -> None:
    """Some agents name their session in every record."""
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    for text in ("bro", "ken"):
        recorder(ev.Session("s"))
        recorder(ev.TextDelta(text))
    assert recorder.finish(PATIENCE_S)
    assert msgspec.json.decode(store.events(turn)[-1][2]) == {"type": "text", "text": "broken"}


def test_what_was_said_before_a_tool_is_told_apart(store: Store) -> None:
    """Some agents print fragments only."""
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    for event in (ev.TextDelta("I look."), ev.ToolCall("1", "read"), ev.TextDelta("It is bro")):
        recorder(event)
    assert recorder.finish(PATIENCE_S)
    assert msgspec.json.decode(store.events(turn)[-1][2])["text"] == "I look.\n\nIt is bro"


def test_an_answer_in_fragments_is_not_taken_for_a_broken_text(store: Store) -> None:
    turn = Talk(store, "t").receive("hi")[1].id
    recorder = Recorder(store, turn, None)
    recorder(ev.TextDelta("the answer"))
    assert recorder.finish(PATIENCE_S, answered=True)
    assert recorder.finish(PATIENCE_S)
    assert store.events(turn) == []
