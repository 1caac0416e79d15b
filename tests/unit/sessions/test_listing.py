"""All sessions of several homes: in order, remembered, of one directory only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.core.errors import Misuse
from segue.sessions import listing
from segue.sessions.agent_homes import AgentHome
from segue.sessions.catalog import find_session, newest_of
from segue.sessions.listing import count_exactly, in_directory, list_sessions
from tests.unit.sessions.made import MadeReader, made_home, write


def place(home: Path, reader: MadeReader, agent: str = "made") -> AgentHome:
    return made_home(home, reader, agent)


def test_the_last_used_comes_first_whatever_home_it_is_in(tmp_path: Path) -> None:
    reader = MadeReader()
    write(tmp_path / "a", "old", brief={"last_used_ms": 1})
    write(tmp_path / "b", "new", brief={"last_used_ms": 3})
    write(tmp_path / "a", "mid", brief={"last_used_ms": 2})
    found = list_sessions([place(tmp_path / "a", reader), place(tmp_path / "b", reader)])
    assert [each.id for each in found] == ["new", "mid", "old"]


def test_only_files_that_changed_are_read_again(tmp_path: Path) -> None:
    reader = MadeReader()
    where = [place(tmp_path / "home", reader)]
    for name in ("one", "two", "three"):
        write(tmp_path / "home", name, brief={"title": name})
    first = list_sessions(where, tmp_path / "memory")
    assert reader.read_briefs == 3
    assert list_sessions(where, tmp_path / "memory") == first
    assert reader.read_briefs == 3
    write(tmp_path / "home", "two", brief={"title": "another"})
    again = {each.id: each.brief.title for each in list_sessions(where, tmp_path / "memory")}
    assert again == {"one": "one", "two": "another", "three": "three"}
    assert reader.read_briefs == 4
    (tmp_path / "home" / "one.jsonl").unlink()
    assert len(list_sessions(where, tmp_path / "memory")) == 2


def test_a_memory_that_is_damaged_is_read_anew(tmp_path: Path) -> None:
    reader = MadeReader()
    where = [place(tmp_path / "home", reader)]
    write(tmp_path / "home", "one", brief={"title": "one"})
    list_sessions(where, tmp_path / "memory")
    (file,) = (tmp_path / "memory").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(b"\xff\x00 nonsense")
    assert [each.brief.title for each in list_sessions(where, tmp_path / "memory")] == ["one"]


def test_messages_are_counted_in_short_lists_and_in_files_that_are_not_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guess: dict[str, object] = {"messages": 99, "messages_estimated": True}
    entry = {"kind": "user", "text": "word " * 20}
    write(tmp_path, "small", entry, brief=guess)
    write(tmp_path, "large", *[entry] * 10, brief=guess)
    found = list_sessions([place(tmp_path, MadeReader())])
    assert {each.id: each.brief.messages for each in count_exactly(found)} == {"small": 1, "large": 10}
    monkeypatch.setattr(listing, "LONG_LIST", 1)
    assert count_exactly(found) == found
    monkeypatch.setattr(listing, "LONG_LIST", 2)
    monkeypatch.setattr(listing, "EXACT", 500)
    counted = {each.id: each.brief for each in count_exactly(found)}
    assert (counted["small"].messages, counted["small"].messages_estimated) == (1, False)
    assert (counted["large"].messages, counted["large"].messages_estimated) == (99, True)


def test_side_chains_are_no_sessions_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "one", brief={"side": True})
    assert list_sessions([place(tmp_path, MadeReader())]) == []


def test_a_directory_is_known_by_what_it_is_not_by_its_name(tmp_path: Path) -> None:
    project, link = tmp_path / "project", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    write(tmp_path / "home", "here", brief={"cwd": str(link)})
    write(tmp_path / "home", "elsewhere", brief={"cwd": str(tmp_path)})
    write(tmp_path / "home", "gone", brief={"cwd": str(tmp_path / "gone")})
    found = list_sessions([place(tmp_path / "home", MadeReader())])
    assert [each.id for each in in_directory(found, project)] == ["here"]
    assert [each.id for each in in_directory(found, tmp_path / "gone")] == ["gone"]


def test_a_session_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    reader = MadeReader()
    write(tmp_path / "a", "abcd1234", brief={})
    write(tmp_path / "a", "abcd9999", brief={})
    where = [place(tmp_path / "a", reader), place(tmp_path / "b", reader, "other")]
    assert find_session(where, "ABCD12").id == "abcd1234"
    with pytest.raises(Misuse, match="several sessions match"):
        find_session(where, "abcd")
    with pytest.raises(Misuse, match="no session"):
        find_session(where, "ffff")
    with pytest.raises(Misuse, match="too short"):
        find_session(where, "abc")
    with pytest.raises(Misuse, match="no session"):
        find_session(where, "other:abcd1234")
    write(tmp_path / "b", "abcd1234", brief={})
    with pytest.raises(Misuse, match="made:abcd1234, other:abcd1234"):
        find_session(where, "abcd1234")
    assert find_session(where, "other:abcd1234").place.agent == "other"


def test_the_newest_of_a_directory_is_the_one_in_which_something_was_said(tmp_path: Path) -> None:
    here = str(tmp_path)
    write(tmp_path / "home", "empty", brief={"cwd": here, "last_used_ms": 9, "empty": True})
    write(tmp_path / "home", "said", brief={"cwd": here, "last_used_ms": 8})
    write(tmp_path / "home", "before", brief={"cwd": here, "last_used_ms": 7})
    where = [place(tmp_path / "home", MadeReader())]
    assert newest_of(where, tmp_path).id == "said"
    with pytest.raises(Misuse, match="no agent has a session in"):
        newest_of(where, Path(os.sep))
