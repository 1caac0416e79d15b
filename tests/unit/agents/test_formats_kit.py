"""The kit finds what is wrong with a session format or an archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import (
    CutRequest,
    Record,
    RepairedCopy,
    RepairOptions,
    SessionArchive,
    SessionFormat,
    StoredSession,
)
from segue.agents.rehearsal.adapter import Rehearsal
from segue.agents.rehearsal.archive import RehearsalArchive
from segue.agents.rehearsal.format import RehearsalFormat
from segue.core.request import Runtime, Start
from segue.core.transcript import Brief
from segue.testing import check_sessions

HOME = Path(__file__).parents[2] / "fixtures" / "sessions" / "rehearsal"


class BriefMiscounts(RehearsalArchive):
    def brief(self, stored: StoredSession) -> Brief:
        return msgspec.structs.replace(super().brief(stored), messages=77)


class BriefRaises(RehearsalArchive):
    def brief(self, stored: StoredSession) -> Brief:
        stored.path.read_bytes().decode()  # damaged bytes are no text
        return super().brief(stored)


class BackForgets(RehearsalArchive):
    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        return iter(list(super().back(stored, end))[1:])


class ReadWrites(RehearsalArchive):
    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        stored.path.with_suffix(".seen").touch()
        return super().read(stored, start)


class RepairTouchesItsSource(RehearsalArchive):
    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        made = super().repair(stored, new_id, options)
        stored.path.write_bytes(stored.path.read_bytes() + b"\n")
        return made


class RemoveLeavesSomething(RehearsalArchive):
    def remove(self, stored: StoredSession) -> None: ...


class FindsNothing(RehearsalFormat):
    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        return None if cwd is None else super().find(home, session, cwd)


class EndIsTooEarly(RehearsalFormat):
    def end(self, stored: StoredSession) -> str | None:
        lines = stored.path.read_bytes().split(b"\n")[1:-1]
        return str(msgspec.json.decode(lines[0])["id"]) if lines else None


class CutsAnywhere(RehearsalFormat):
    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        return Start("branch", stored.id, wanted.anchor, wanted.new_id)


class CutMovesItsSource(RehearsalFormat):
    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        if super().cut(stored, wanted) is None:
            return None
        stored.path.rename(stored.path.with_name(f"{wanted.new_id}.jsonl"))
        return Start("resume", wanted.new_id)


class ContinuesRaises(RehearsalFormat):
    def continues(self, stored: StoredSession, anchor: str) -> bool:
        raise ValueError(anchor)


class GrowsEachTime(RehearsalFormat):
    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        stored.path.write_bytes(stored.path.read_bytes() + b'{"type":"note"}\n')


def check(sessions: SessionFormat | None, archive: SessionArchive | None, rounds: int = 0) -> list[str]:
    members: dict[str, Any] = {"format": sessions, "archive": lambda self: archive}
    return check_sessions(type("Odd", (Rehearsal,), members)(), [HOME], rounds=rounds)


def test_what_is_well_made_has_no_problems() -> None:
    assert check(RehearsalFormat(), RehearsalArchive(), rounds=5) == []
    assert check(RehearsalFormat(), None) == check(None, None) == []


def test_an_archive_needs_a_format() -> None:
    assert check(None, RehearsalArchive()) == ["archive: it needs a format that finds sessions"]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (BriefMiscounts, "messages, not 77"),
        (BackForgets, "backwards differs from reading it forwards"),
        (ReadWrites, "has changed something in the home"),
        (RepairTouchesItsSource, "repair: it has changed"),
        (RemoveLeavesSomething, "remove: something remains"),
        (BriefRaises, "brief, expires_ms: raised UnicodeDecodeError"),
    ],
)
def test_a_fault_of_an_archive_is_found(made: type[RehearsalArchive], says: str) -> None:
    rounds = 40 if made is BriefRaises else 0
    assert [problem for problem in check(RehearsalFormat(), made(), rounds) if says in problem] != []


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (FindsNothing, "is not found as it is listed"),
        (EndIsTooEarly, "was said in"),
        (CutsAnywhere, "it found an anchor that"),
        (CutMovesItsSource, "cut: it has changed"),
        (ContinuesRaises, "end, continues: raised ValueError"),
        (ContinuesRaises, "a_cut_ends_where_it_was_asked_to: raised ValueError"),
        (GrowsEachTime, "was changed a second time"),
    ],
)
def test_a_fault_of_a_format_is_found(made: type[RehearsalFormat], says: str) -> None:
    assert [problem for problem in check(made(), RehearsalArchive()) if says in problem] != []
