"""Briefs by several processes are the briefs by one, and whatever becomes of a helper, none is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.agents import registry
from segue.agents.base import SessionArchive, StoredSession
from segue.config.schema import Config
from segue.core.transcript import Brief
from segue.sessions import brief_workers

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"


def recorded(agent: str) -> tuple[SessionArchive, list[StoredSession]]:
    reader = registry.get(agent, Config()).archive()
    assert reader is not None
    homes = sorted({*FIXTURES.glob(f"{agent}*"), *FIXTURES.glob(f"{agent}*/*")})
    return reader, [stored for home in homes for stored in reader.stored(home)] * 3


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brief_workers, "WORTH", 1)
    monkeypatch.setattr(brief_workers, "_cores", lambda: 3)


@pytest.mark.parametrize("agent", list(registry.BUILT_IN))
def test_many_hands_tell_what_one_does(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, sessions = recorded(agent)
    assert len(sessions) >= 3
    alone = [reader.brief(each) for each in sessions]
    asked: list[StoredSession] = []
    monkeypatch.setattr(type(reader), "brief", _counting(type(reader).brief, asked))
    assert brief_workers.briefs(agent, reader, sessions) == alone
    assert len(asked) < len(sessions), "nobody helped"


def test_a_name_that_is_no_text_is_handed_on(tmp_path: Path) -> None:
    reader, (first, *_) = recorded("rehearsal")
    odd = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(odd)).write_bytes(first.path.read_bytes())
    named = StoredSession(id="x", home=tmp_path, file=os.fsdecode(odd), size=first.size, changed_ns=5)
    found = brief_workers.briefs("rehearsal", reader, [first, first, named])
    assert [each.first_prompt for each in found] == [reader.brief(first).first_prompt] * 3


@pytest.mark.parametrize("program", ["/bin/false", "/bin/true", "/nowhere/python", ""])
def test_what_a_helper_cannot_do_is_done_here(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, sessions = recorded("rehearsal")
    alone = [reader.brief(each) for each in sessions]
    monkeypatch.setattr(sys, "executable", program)
    assert brief_workers.briefs("rehearsal", reader, sessions) == alone


def _counting(
    brief: Callable[[SessionArchive, StoredSession], Brief], asked: list[StoredSession]
) -> Callable[..., Brief]:
    def counted(self: SessionArchive, stored: StoredSession) -> Brief:
        asked.append(stored)
        return brief(self, stored)

    return counted
