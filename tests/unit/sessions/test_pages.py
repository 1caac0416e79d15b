"""Pages of a session: newest first, each event once, cursors that hold while the session grows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from segue.agents.base import StoredSession
from segue.core.errors import Misuse
from segue.sessions.reading import Page, both_ends, newest_page, page_after, page_around
from tests.unit.sessions.made import MadeFormat, MadeReader, write

READER = MadeReader()


def session(tmp_path: Path, count: int = 250) -> StoredSession:
    lines = [{"kind": "user", "text": f"word {n}", "native": f"n{n}"} for n in range(count)]
    write(tmp_path, "one", *lines)
    stored = MadeFormat(READER).find(tmp_path, "one")
    assert stored is not None
    return stored


def texts(page: Page) -> list[str]:
    return [event.text for event in page.events]


def test_the_newest_page_comes_first_and_the_cursor_leads_to_the_one_before(tmp_path: Path) -> None:
    stored = session(tmp_path)
    newest = newest_page(READER, stored)
    assert (newest.size, newest.has_more) == (100, True)
    assert texts(newest) == [f"word {n}" for n in range(150, 250)]
    middle = newest_page(READER, stored, before_id=newest.first_id)
    assert texts(middle) == [f"word {n}" for n in range(50, 150)]
    oldest = newest_page(READER, stored, before_id=middle.first_id)
    assert texts(oldest) == [f"word {n}" for n in range(50)]
    assert oldest.has_more is False


def test_a_page_has_the_names_that_others_use() -> None:
    page = Page(first_id="0.0", has_more=True, size=0, events=(), last_id="0.0", has_newer=False)
    told = msgspec.json.decode(msgspec.json.encode(page))
    assert told == {
        "firstId": "0.0",
        "hasMore": True,
        "size": 0,
        "events": [],
        "lastId": "0.0",
        "hasNewer": False,
    }


def test_an_event_may_be_named_by_the_agents_own_id(tmp_path: Path) -> None:
    before = newest_page(READER, session(tmp_path), before_id="n7")
    assert texts(before) == [f"word {n}" for n in range(7)]


def test_a_record_of_many_events_is_not_torn_apart(tmp_path: Path) -> None:
    block = [{"kind": "call", "text": str(n)} for n in range(4)]
    write(tmp_path, "one", *[block for _ in range(10)])
    stored = MadeFormat(READER).find(tmp_path, "one")
    assert stored is not None
    newest = newest_page(READER, stored, size=10)
    assert newest.size == 8
    assert newest.first_id is not None
    assert newest_page(READER, stored, size=100, before_id=newest.first_id).size == 32


def test_what_was_asked_for_alone_is_counted(tmp_path: Path) -> None:
    lines = [{"kind": "user" if n % 2 else "state", "text": str(n)} for n in range(20)]
    write(tmp_path, "one", *lines)
    stored = MadeFormat(READER).find(tmp_path, "one")
    assert stored is not None
    one = newest_page(READER, stored, size=5, wanted=lambda event: event.kind == "user")
    assert texts(one) == ["11", "13", "15", "17", "19"]


def test_a_page_can_end_with_an_event(tmp_path: Path) -> None:
    stored = session(tmp_path)
    one = page_around(READER, stored, "n42", size=10)
    assert texts(one) == [f"word {n}" for n in range(33, 43)]
    assert (one.has_more, one.has_newer) == (True, True)
    assert page_around(READER, stored, "n249", size=10).has_newer is False


@pytest.mark.parametrize("appends", [True, False])
def test_the_cursor_at_the_end_leads_to_the_page_after(tmp_path: Path, appends: bool) -> None:
    """Also in a session that is not a file of records: there, the event is searched for."""
    stored = msgspec.structs.replace(session(tmp_path), appends=appends)
    first = page_around(READER, stored, "n19", size=20)
    assert first.last_id is not None
    second = page_after(READER, stored, first.last_id)
    assert texts(second) == [f"word {n}" for n in range(20, 120)]
    assert (second.has_more, second.has_newer) == (True, True)
    assert second.last_id is not None
    third = page_after(READER, stored, second.last_id, size=200)
    assert texts(third) == [f"word {n}" for n in range(120, 250)]
    assert (third.has_newer, third.last_id) == (False, newest_page(READER, stored).last_id)
    nothing = page_after(READER, stored, third.last_id or "")
    assert (nothing.events, nothing.last_id, nothing.has_newer) == ((), third.last_id, False)


def test_what_is_still_being_written_comes_again_when_it_is_complete(tmp_path: Path) -> None:
    path = write(tmp_path, "one", {"kind": "user", "text": "whole"})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind": "user", "text": "torn"}')
    stored = MadeFormat(READER).find(tmp_path, "one")
    assert stored is not None
    torn = newest_page(READER, stored)
    assert (texts(torn), torn.last_id) == (["whole", "torn"], "0.0")
    path.write_bytes(whole + b'{"kind": "user", "text": "torn no more"}\n')
    stored = MadeFormat(READER).find(tmp_path, "one")
    assert stored is not None
    assert texts(page_after(READER, stored, "0.0")) == ["torn no more"]


@pytest.mark.parametrize("event", ["nowhere", "99999999.0", "0.7"])
def test_no_page_comes_after_an_event_that_is_not_there(tmp_path: Path, event: str) -> None:
    with pytest.raises(Misuse, match="no event"):
        page_after(READER, session(tmp_path), event)


@pytest.mark.parametrize("event", ["nowhere", "99999999.0", "1.7"])
def test_an_event_that_is_not_there_is_misuse(tmp_path: Path, event: str) -> None:
    with pytest.raises(Misuse, match="no event"):
        newest_page(READER, session(tmp_path), before_id=event)


def test_the_end_of_a_huge_session_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    with path.open("wb") as file:
        file.truncate(3 << 30)  # three gigabytes of nothing, which take no room
        file.seek(0, 2)
        for n in range(100):
            file.write(b"\n" * (n == 0) + msgspec.json.encode({"kind": "user", "text": f"word {n}"}) + b"\n")
    stored = MadeFormat(READER).find(tmp_path, "one")
    assert stored is not None
    newest = newest_page(READER, stored, size=50)
    assert texts(newest) == [f"word {n}" for n in range(50, 100)]
    older = page_around(READER, stored, newest.events[9].id, size=10)
    assert (older.size, older.has_newer) == (10, True)
    assert older.last_id is not None
    assert page_after(READER, stored, older.last_id).events == newest.events[10:]


def test_both_ends_of_a_large_session_are_read_and_nothing_twice(tmp_path: Path) -> None:
    stored = session(tmp_path)
    whole = [f"word {n}" for n in range(250)]
    part = [entry.text for entry in both_ends(READER, stored, stored.size // 10)]
    assert 40 <= len(part) <= 60
    assert (part[:20], part[-20:]) == (whole[:20], whole[-20:])
    assert part == [word for word in whole if word in part]
    assert [entry.text for entry in both_ends(READER, stored, stored.size)] == whole
