"""The rehearsal agent's sessions as others see them: listed, read, repaired, removed. Also damaged ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import Record, RepairOptions, SessionArchive, StoredSession
from segue.agents.rehearsal.adapter import AGENT
from segue.agents.rehearsal.archive import ARCHIVE
from segue.agents.rehearsal.format import FORMAT
from segue.core.errors import Broken, NotFound

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions" / "rehearsal"
WHOLE, KILLED = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
NEW = "33333333-3333-4333-8333-333333333333"
HEADER = {"type": "session", "id": "old", "cwd": "/work", "model": "rehearsal-1", "created_ms": 1}


def reader() -> SessionArchive:
    found = AGENT.archive()
    assert found is not None
    return found


READER = reader()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES, tmp_path / "home")
    return tmp_path / "home"


def find(home: Path, session: str) -> StoredSession:
    found = FORMAT.find(home, session)
    assert found is not None
    return found


def kinds(records: list[Record]) -> list[str]:
    return [entry.kind for record in records for entry in record.entries]


def told(home: Path, session: str) -> list[tuple[str, str]]:
    """What is said in a session, by kind."""
    records = READER.read(find(home, session))
    return [(entry.kind, entry.text) for record in records for entry in record.entries]


def message(number: int, kind: str, role: str, text: str = "words", **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": f"m{number}", "kind": kind, "role": role, "text": text, **more}


def write(home: Path, *lines: Any, session: str = "old") -> StoredSession:
    path = home / "sessions" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = [line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n" for line in lines]
    path.write_bytes(b"".join(data))
    return find(home, session)


def ask(home: Path, session: str, prompt: str) -> dict[str, Any]:
    """The real agent goes on with a session; how it ended."""
    command = [*AGENT.facts.builtin, f"--resume={session}"]
    env = {"PATH": os.environ["PATH"], "REHEARSAL_HOME": str(home)}
    ran = subprocess.run(command, input=prompt, env=env, capture_output=True, text=True, timeout=30)
    return msgspec.json.decode(ran.stdout.splitlines()[-1], type=dict[str, Any])


# --- reading -------------------------------------------------------------------------------------------


def test_all_sessions_of_a_home_are_listed_and_nothing_else(home: Path, tmp_path: Path) -> None:
    folder = home / "sessions"
    (folder / f"{WHOLE}.lock").touch()
    (folder / ".half.1.part").touch()
    (folder / "folder.jsonl").mkdir()
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "linked.jsonl").symlink_to(folder / f"{WHOLE}.jsonl")
    assert {stored.id for stored in READER.stored(home)} == {WHOLE, KILLED, "linked"}
    assert list(READER.stored(tmp_path / "nowhere")) == []
    assert FORMAT.find(home, "../sessions/x") is None
    assert FORMAT.find(home, "none") is None


def test_a_brief_tells_what_a_session_is(home: Path) -> None:
    brief = READER.brief(find(home, WHOLE))
    assert (brief.cwd, brief.model, brief.created_ms) == ("/home/me/project", "rehearsal-1", 1794797467951)
    assert (brief.title, brief.title_by) == ("remember number 456", "prompt")
    assert brief.last_prompt == "TWO [[shell echo out-502]] [[say done-2]]"
    assert (brief.messages, brief.messages_estimated, brief.empty) == (4, False, False)
    assert brief.last_used_ms == 1794797468572
    assert READER.brief(find(home, KILLED)).messages == 1


def test_the_messages_of_a_large_session_are_carried_over_from_its_ends(home: Path) -> None:
    prompt, answer = message(1, "text", "user", "a" * 1000), message(2, "text", "assistant", "b" * 1000)
    stored = write(home, HEADER, *([prompt, answer] * 500))
    brief = READER.brief(stored)
    assert brief.messages_estimated
    assert brief.messages == pytest.approx(1000, rel=0.03)
    assert (brief.first_prompt, brief.last_prompt) == ("a" * 1000, "a" * 1000)


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b'{"type":"other"}\n', b"\xff\xfe\n", b'{"id":1}\n'])
def test_a_session_without_a_header_is_reported(home: Path, content: bytes) -> None:
    stored = write(home, content)
    assert READER.brief(stored).trouble == "its header is damaged"
    assert set(kinds(list(READER.read(stored)))) <= {"damaged", "unknown"}


def test_a_session_that_is_gone_is_reported(home: Path) -> None:
    stored = write(home, HEADER)
    stored.path.unlink()
    stored.path.mkdir()
    assert "cannot be read" in (READER.brief(stored).trouble or "")
    assert kinds(list(READER.read(stored))) == kinds(list(READER.back(stored))) == ["damaged"]


def test_entries_say_what_happened(home: Path) -> None:
    entries = [entry for record in READER.read(find(home, WHOLE)) for entry in record.entries]
    assert [entry.kind for entry in entries] == [
        *("state", "user", "assistant", "user", "call", "result", "assistant"),
    ]
    call, result = entries[4:6]
    assert (call.tool, call.input, call.call) == ("shell", {"command": "echo out-502"}, result.call)
    assert (result.text, entries[-1].at_ms) == ("out-502", 1794797468572)


def test_unknown_and_damaged_lines_are_named_and_a_torn_one_waits(home: Path) -> None:
    lines = (HEADER, {"type": "mood"}, b"no json\n", message(1, "dance", "user"), b'{"type":"message","id"')
    stored = write(home, *lines)
    assert kinds(list(READER.read(stored))) == ["state", "unknown", "damaged", "unknown"]
    assert kinds(list(READER.back(stored))) == ["damaged", "unknown", "damaged", "unknown", "state"]


def test_backwards_is_forwards_reversed_from_every_place(home: Path) -> None:
    stored = find(home, WHOLE)
    records = list(READER.read(stored))
    assert list(READER.back(stored)) == records[::-1]
    for n, record in enumerate(records):
        assert list(READER.back(stored, record.start)) == records[:n][::-1]
        assert list(READER.read(stored, record.next)) == records[n + 1 :]


def test_files_and_expiry(home: Path) -> None:
    stored = find(home, WHOLE)
    assert READER.files(stored) == (stored.path,)
    assert READER.expires_ms(stored, READER.brief(stored)) is None


# --- repairing -----------------------------------------------------------------------------------------


def test_a_killed_session_is_repaired_into_one_that_the_agent_resumes(home: Path) -> None:
    stored = find(home, KILLED)
    stored.path.write_bytes(stored.path.read_bytes() + b'damaged\n{"type":"mess')
    before = stored.path.read_bytes()
    assert ask(home, KILLED, "what now?")["error"]["reason"] == "corrupt"
    mended = ARCHIVE.repair(stored, NEW, RepairOptions())
    assert mended.done == ("2 damaged records were left out", "1 call without a result was closed")
    assert (mended.session, mended.path.stat().st_mode & 0o777) == (NEW, 0o600)
    assert stored.path.read_bytes() == before
    assert [kind for kind, _ in told(home, NEW)] == ["state", "user", "call", "result"]
    assert READER.brief(find(home, NEW)).parent == KILLED
    assert ask(home, NEW, "remember number 7, what number?")["ok"]


def test_what_belongs_to_nothing_is_dropped(home: Path) -> None:
    lines = (
        message(1, "text", "user", "one"),
        message(2, "result", "user", "loose", call_id="c0"),
        message(3, "text", "assistant", " "),
        message(4, "call", "assistant", "{}", call_id="c1"),
        message(5, "text", "user", "two"),
    )
    mended = ARCHIVE.repair(write(home, HEADER, *lines), NEW, RepairOptions())
    assert mended.done == (
        "1 call without a result was closed",
        "1 result without a call was left out",
        "1 empty answer was left out",
    )
    assert [kind for kind, _ in told(home, NEW)] == ["state", "user", "call", "result", "user"]


def test_trimming_keeps_the_dialogue_and_leaves_out_the_output(home: Path) -> None:
    mended = ARCHIVE.repair(find(home, WHOLE), NEW, RepairOptions(trim=True))
    assert mended.done == ("the output of 1 tool call was left out",)
    old, new = told(home, WHOLE), told(home, NEW)
    assert [kind for kind, _ in old] == [kind for kind, _ in new]
    assert [text for kind, text in new if kind == "result"] == [
        "[The output of this tool call, 7 bytes, was left out.]"
    ]


def test_a_repaired_copy_can_begin_at_a_later_prompt(home: Path) -> None:
    third = list(READER.read(find(home, WHOLE)))[2]
    mended = ARCHIVE.repair(find(home, WHOLE), NEW, RepairOptions(since=third.entries[0].id))
    assert mended.done == ("2 earlier messages were left out",)
    assert [kind for kind, _ in told(home, NEW)] == ["state", "user", "call", "result", "assistant"]


@pytest.mark.parametrize(
    ("since", "why"), [("99999.0", "it has no prompt"), ("last week", 'no event "last week" in')]
)
def test_a_place_that_leaves_nothing_is_refused_and_nothing_is_written(
    home: Path, since: str, why: str
) -> None:
    before = sorted((home / "sessions").iterdir())
    with pytest.raises((Broken, NotFound), match=why):
        ARCHIVE.repair(find(home, WHOLE), NEW, RepairOptions(since=since))
    assert sorted((home / "sessions").iterdir()) == before


def test_a_session_without_a_header_and_a_taken_id_are_refused(home: Path) -> None:
    with pytest.raises(Broken, match="header"):
        ARCHIVE.repair(write(home, b"nothing\n"), NEW, RepairOptions())
    with pytest.raises(Broken, match="already"):
        ARCHIVE.repair(find(home, WHOLE), KILLED, RepairOptions())


# --- removing ------------------------------------------------------------------------------------------


def test_a_removed_session_is_gone_with_its_lock_and_the_others_stay(home: Path) -> None:
    (home / "sessions" / f"{WHOLE}.lock").touch()
    stored = find(home, WHOLE)
    ARCHIVE.remove(stored)
    ARCHIVE.remove(stored)
    assert [path.name for path in (home / "sessions").iterdir()] == [f"{KILLED}.jsonl"]
    assert ask(home, WHOLE, "hello")["error"]["reason"] == "not_found"


def test_a_link_is_removed_and_what_it_points_to_stays(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    (home / "sessions" / f"{WHOLE}.jsonl").rename(outside)
    (home / "sessions" / f"{WHOLE}.jsonl").symlink_to(outside)
    ARCHIVE.remove(find(home, WHOLE))
    assert outside.is_file()
    assert FORMAT.find(home, WHOLE) is None
    (home / "sessions").rename(tmp_path / "elsewhere")
    (home / "sessions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Broken, match="outside"):
        ARCHIVE.remove(find(home, KILLED))
