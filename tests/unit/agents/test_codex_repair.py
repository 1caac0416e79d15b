"""Codex's sessions written anew without what is broken, and taken away with all that its indexes say."""

import fcntl
import shutil
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.codex.archive import ARCHIVE
from segue.agents.codex.format import FORMAT
from segue.agents.repair_words import INTERRUPTED
from segue.core.errors import Broken, InUse, Misuse, NotFound
from segue.core.transcript import Entry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
VERSIONS = ("0.166.0", "0.104.0")
MINE, OTHER, NEW = (f"01a1e24e-5307-79f1-8454-38691672330{n}" for n in (1, 2, 3))
WHEN = "2026-01-02T03:04:05.678Z"
IMAGE = "data:image/png;base64," + "A" * 5_000


def line(kind: str, **payload: Any) -> bytes:
    return msgspec.json.encode({"timestamp": WHEN, "type": kind, "payload": payload}) + b"\n"


def item(**payload: Any) -> bytes:
    return line("response_item", **payload)


def message(role: str, *parts: str) -> bytes:
    content = [
        {"type": "input_image", "image_url": part}
        if part.startswith("data:")
        else {"type": "input_text", "text": part}
        for part in parts
    ]
    return item(type="message", role=role, content=content)


def call(key: str, kind: str = "function_call") -> bytes:
    return item(type=kind, name="exec_command", arguments='{"cmd":"ls"}', input="x", call_id=key)


def result(key: str, output: Any = "done", kind: str = "function_call_output") -> bytes:
    return item(type=kind, call_id=key, output=output)


HEAD = line("session_meta", id=MINE, timestamp=WHEN, cwd="/there", originator="x", cli_version="0.1.0")


def put(home: Path, *lines: bytes, thread: str = MINE) -> StoredSession:
    path = home / "sessions/2026/01/02" / f"rollout-2026-01-02T03-04-05-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return found(home, thread)


def found(home: Path, thread: str) -> StoredSession:
    stored = FORMAT.find(home, thread)
    assert stored is not None
    return stored


def repair(stored: StoredSession, **mending: Any) -> tuple[RepairedCopy, list[Entry]]:
    before = stored.path.read_bytes()
    mended = ARCHIVE.repair(stored, NEW, RepairOptions(**mending))
    assert stored.path.read_bytes() == before
    assert mended.path.stat().st_mode & 0o777 == 0o600
    assert ARCHIVE.brief(found(stored.home, NEW)).trouble is None
    return mended, entries(found(stored.home, NEW))


def entries(stored: StoredSession) -> list[Entry]:
    return [entry for record in ARCHIVE.read(stored) for entry in record.entries if entry.kind != "state"]


def shown(found: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.kind, entry.call or entry.text) for entry in found]


# --- repairing -------------------------------------------------------------------------------------


def test_damaged_lines_are_dropped(tmp_path: Path) -> None:
    stored = put(
        tmp_path,
        HEAD,
        message("user", "hi"),
        b"garbage\n",
        message("assistant", "ho"),
        message("user", "half")[:50],
    )
    mended, kept = repair(stored)
    assert mended.done == ("2 damaged records were left out",)
    assert shown(kept) == [("user", "hi"), ("assistant", "ho")]


def test_calls_get_results_and_results_without_calls_go(tmp_path: Path) -> None:
    stored = put(
        tmp_path,
        *(HEAD, message("user", "hi"), result("stray"), call("a"), call("b"), call("c", "custom_tool_call")),
        *(
            result("b"),
            result("b", "again"),
            message("user", "go on"),
            result("a", "late"),
            message("assistant", ""),
        ),
    )
    mended, kept = repair(stored)
    assert mended.done == (
        "1 call without a result was closed",
        "2 results without a call were left out",
        "1 empty answer was left out",
    )
    assert shown(kept) == [
        *(("user", "hi"), ("call", "a"), ("call", "b"), ("call", "c"), ("result", "c")),
        *(("result", "b"), ("user", "go on"), ("result", "a")),
    ]
    closed = next(entry for entry in kept if entry.call == "c" and entry.kind == "result")
    assert closed.text == INTERRUPTED
    assert b'"custom_tool_call_output"' in mended.path.read_bytes()


def test_a_result_before_its_call_is_none(tmp_path: Path) -> None:
    stored = put(
        tmp_path, HEAD, message("user", "hi"), result("a"), call("a"), call("a"), result("a"), call("")
    )
    mended, kept = repair(stored)
    assert mended.done == (
        "1 damaged record was left out",
        "1 call without a result was closed",
        "1 result without a call was left out",
    )
    assert [entry.kind for entry in kept] == ["user", "call", "call", "result", "result"]


def test_a_line_that_codex_could_not_read_is_dropped(tmp_path: Path) -> None:
    """In a part of it that nobody here needs."""
    bad = line("turn_context", cwd="/x", note="NOTE").replace(b"NOTE", b"\xff")
    mended, _ = repair(put(tmp_path, HEAD, bad, message("user", "hi")))
    assert mended.done == ("1 damaged record was left out",)
    assert mended.path.read_bytes().decode()


def test_a_line_without_a_time_gets_one(tmp_path: Path) -> None:
    untimed = msgspec.json.decode(message("user", "hi"))
    del untimed["timestamp"]
    mended, kept = repair(
        put(tmp_path, HEAD, msgspec.json.encode(untimed) + b"\n", message("assistant", "ho"))
    )
    assert mended.done == ("1 record without a time was given one",)
    assert all(entry.at_ms for entry in kept)


def test_images_that_are_too_large_become_words(tmp_path: Path) -> None:
    small = "data:image/png;base64,AA"
    stored = put(
        tmp_path,
        *(
            HEAD,
            message("user", "see", IMAGE, small),
            line("event_msg", type="user_message", images=[IMAGE, small]),
        ),
        *(call("a"), result("a", [{"type": "input_image", "image_url": IMAGE}])),
        item(type="image_generation_call", id="i", status="completed", result="B" * 9_000),
    )
    mended, kept = repair(stored, image_bytes=1_000)
    assert mended.done == ("3 images were replaced by a line of text",)
    assert [entry.images for entry in kept] == [(len(small),), (), (), ()]
    assert [entry.text for entry in kept if "image of" in entry.text] == [
        f"see\n[An image of {len(IMAGE)} bytes was left out.]",
        f"[An image of {len(IMAGE)} bytes was left out.]",
        "[An image of 9000 bytes was left out.]",
    ]
    assert IMAGE.encode() not in mended.path.read_bytes()
    assert repair_again(stored, 1_000_000) == ()


def repair_again(stored: StoredSession, image_bytes: int) -> tuple[str, ...]:
    return ARCHIVE.repair(stored, NEW[:-1] + "9", RepairOptions(image_bytes=image_bytes)).done


@pytest.mark.parametrize("version", VERSIONS)
def test_trimming_keeps_the_dialogue_and_the_calls(tmp_path: Path, version: str) -> None:
    shutil.copytree(FIXTURES / f"codex-{version}" / "talk", tmp_path, dirs_exist_ok=True)
    (stored,) = ARCHIVE.stored(tmp_path)
    mended, kept = repair(stored, trim=True)
    assert mended.done == ("the output of 1 tool call was left out",)
    assert [(e.kind, e.text if e.kind != "result" else "") for e in kept] == [
        (e.kind, e.text if e.kind != "result" else "") for e in entries(stored)
    ]
    assert [e.text for e in kept if e.kind == "result"] == [
        "[The output of this tool call, 111 bytes, was left out.]"
    ]
    assert b"Process exited" not in mended.path.read_bytes()
    assert b"CommandExecution" not in mended.path.read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_since_leaves_out_what_was_said_before(tmp_path: Path, version: str) -> None:
    shutil.copytree(FIXTURES / f"codex-{version}" / "talk", tmp_path, dirs_exist_ok=True)
    (stored,) = ARCHIVE.stored(tmp_path)
    place = next(entry.id for entry in entries(stored) if entry.text == "done-1")
    mended, kept = repair(stored, since=place)
    spoken = [entry for entry in kept if not entry.inserted]
    assert mended.done == ("2 earlier messages were left out",)
    assert [entry.kind for entry in spoken] == ["user", "call", "result", "assistant", "user", "assistant"]
    assert any(entry.label == "project instructions" for entry in kept)


def test_a_place_that_is_none(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD, message("user", "hi"), message("assistant", "ho"))
    with pytest.raises((Broken, NotFound), match='no event "nonsense" in'):
        repair(stored, since="nonsense")
    with pytest.raises(Broken, match="it has no prompt after"):
        repair(stored, since=f"{stored.size - 5}.0")
    assert [path.name for path in stored.path.parent.iterdir()] == [stored.path.name]


def test_the_head_is_another_sessions(tmp_path: Path) -> None:
    paged = HEAD.replace(b'"cwd"', b'"history_mode":"paginated","session_id":"s","cwd"')
    about = line("event_msg", type="thread_settings_applied", thread_id=MINE)
    mended, _ = repair(put(tmp_path, paged, about, message("user", f'the "id":"{MINE}"')))
    head, settings, prompt = (
        msgspec.json.decode(text)["payload"] for text in mended.path.read_bytes().splitlines()
    )
    assert (head["id"], head["session_id"], head["history_mode"], head["forked_from_id"]) == (
        NEW,
        "s",
        "legacy",
        MINE,
    )
    assert settings["thread_id"] == NEW
    assert prompt["content"][0]["text"] == f'the "id":"{MINE}"'


def test_a_damaged_head_is_written_anew(tmp_path: Path) -> None:
    context = line("turn_context", cwd="/elsewhere", model="m")
    mended, kept = repair(put(tmp_path, HEAD[:40] + b"\n", context, message("user", "hi")))
    assert mended.done == ("1 damaged record was left out", "the first record was rewritten")
    assert ARCHIVE.brief(found(tmp_path, NEW)).cwd == "/elsewhere"
    assert shown(kept) == [("user", "hi")]


@pytest.mark.parametrize("lines", [(), (HEAD,), (message("user", "hi"),), (b"garbage\n",)])
def test_what_cannot_be_saved(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    stored = put(tmp_path, *lines)
    with pytest.raises((Broken, NotFound)):
        ARCHIVE.repair(stored, NEW, RepairOptions())
    assert FORMAT.find(tmp_path, NEW) is None


def test_a_fork_is_written_out_whole(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "codex-0.166.0" / "fork", tmp_path, dirs_exist_ok=True)
    stored = max(ARCHIVE.stored(tmp_path), key=lambda one: one.path.name)
    mended, kept = repair(stored)
    assert mended.done == ("the history that it continues was copied into it",)
    assert shown(kept) == shown(entries(stored))
    assert ARCHIVE.files(found(tmp_path, NEW)) == (mended.path,)
    since = next(e.id for e in entries(stored) if e.text.startswith("[[shell"))
    assert since.startswith("-")
    later = ARCHIVE.repair(stored, OTHER, RepairOptions(since=since))
    assert [e.text for e in entries(found(tmp_path, later.session)) if e.kind == "assistant"] == [
        "done-2",
        "done-3",
    ]


def test_a_packed_session_is_repaired(tmp_path: Path) -> None:
    plain = put(tmp_path, HEAD, message("user", "hi"), call("a"))
    packed = plain.path.with_name(f"{plain.path.name}.zst")
    packed.write_bytes(zstandard.compress(plain.path.read_bytes()))
    plain.path.unlink()
    mended, kept = repair(found(tmp_path, MINE))
    assert (mended.path.suffix, len(kept)) == (".jsonl", 3)


def test_memory_stays_flat(tmp_path: Path) -> None:
    chunk = b"".join((message("user", "x" * 5_000), call("a"), result("a", "y" * 20_000)))
    stored = put(tmp_path, HEAD, chunk * 1_500)
    assert stored.size > 37_000_000
    tracemalloc.start()
    ARCHIVE.repair(stored, NEW, RepairOptions())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16_000_000


# --- removing --------------------------------------------------------------------------------------

TABLES = """
CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT NOT NULL, attached_thread_parent_id TEXT);
CREATE TABLE thread_tools (thread_id TEXT NOT NULL REFERENCES threads(id), position INTEGER);
CREATE TABLE thread_spawn_edges (parent_thread_id TEXT, child_thread_id TEXT PRIMARY KEY);
CREATE TABLE sections (id TEXT PRIMARY KEY);
"""


def index(home: Path, *threads: str) -> Path:
    path = home / "state_5.sqlite"
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    for thread in threads:
        database.execute("INSERT INTO threads VALUES (?, ?, NULL)", (thread, f"/x/{thread}"))
        database.execute("INSERT INTO thread_tools VALUES (?, 1)", (thread,))
    database.execute("INSERT INTO thread_spawn_edges VALUES (?, ?)", threads)
    database.execute("INSERT INTO sections VALUES (?)", (threads[0],))
    database.commit()
    database.close()
    return path


def rows(path: Path) -> dict[str, int]:
    database = sqlite3.connect(path)
    tables = ("threads", "thread_tools", "thread_spawn_edges", "sections")
    counts = {table: database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables}
    database.close()
    return counts


def names(*threads: str) -> str:
    return "".join(f'{{"id":"{thread}","thread_name":"named {thread}"}}\n' for thread in threads)


def test_all_that_belongs_to_a_session_goes_and_nothing_else(tmp_path: Path) -> None:
    mine, other = put(tmp_path, HEAD), put(tmp_path, HEAD, thread=OTHER)
    own = mine.path.with_name(mine.path.name.replace(f"{MINE}.", f"{MINE}_{NEW}."))
    own.write_bytes(HEAD)
    archive = tmp_path / "archived_sessions"
    archive.mkdir()
    (archive / mine.path.name).write_bytes(HEAD)
    shots = tmp_path / "shell_snapshots"
    shots.mkdir()
    for name in (f"{MINE}.17.sh", f"{OTHER}.sh"):
        (shots / name).touch()
    (tmp_path / "session_index.jsonl").write_text(names(MINE, OTHER, MINE) + "odd line")
    (tmp_path / "history.jsonl").write_text(f'{{"session_id":"{MINE}","text":"hi"}}\n')
    database = index(tmp_path, MINE, OTHER)
    ARCHIVE.remove(found(tmp_path, MINE))
    assert [one.path for one in ARCHIVE.stored(tmp_path)] == [other.path]
    assert [path.name for path in shots.iterdir()] == [f"{OTHER}.sh"]
    assert list(archive.iterdir()) == []
    assert (tmp_path / "session_index.jsonl").read_text() == names(OTHER) + "odd line"
    assert "hi" in (tmp_path / "history.jsonl").read_text()
    assert rows(database) == {"threads": 1, "thread_tools": 1, "thread_spawn_edges": 0, "sections": 1}
    ARCHIVE.remove(mine)


def test_indexes_that_know_nothing_of_it_stay_as_they_are(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD)
    database = index(tmp_path, OTHER, NEW)
    (tmp_path / "session_index.jsonl").write_text(names(OTHER))
    (tmp_path / "mine_1.sqlite").write_bytes(b"not Codex's")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    ARCHIVE.remove(stored)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert database in before


def test_nothing_goes_while_the_index_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.agents.codex.archive._PATIENCE_S", 0.1)
    stored = put(tmp_path, HEAD)
    database = sqlite3.connect(index(tmp_path, MINE, OTHER))
    database.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InUse, match=r"Codex's state_5.sqlite cannot be written to now"):
        ARCHIVE.remove(stored)
    database.rollback()
    database.close()
    assert stored.path.exists()
    assert rows(tmp_path / "state_5.sqlite")["threads"] == 2


def test_nothing_goes_while_codex_writes_to_it(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD)
    lock = tmp_path / "thread-writer-locks" / f"{MINE}.lock"
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InUse, match="is running the session"):
            ARCHIVE.remove(stored)
        assert stored.path.exists()
    ARCHIVE.remove(stored)
    assert not stored.path.exists()


def test_a_damaged_index_stops_it(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD)
    (tmp_path / "state_5.sqlite").write_bytes(b"x" * 5_000)
    with pytest.raises(Broken, match="damaged"):
        ARCHIVE.remove(stored)
    assert stored.path.exists()


def test_what_another_goes_on_from_stays(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "codex-0.166.0" / "fork", tmp_path, dirs_exist_ok=True)
    parent, fork = sorted(ARCHIVE.stored(tmp_path), key=lambda one: one.path.name)
    with pytest.raises(Misuse, match=f"{fork.id} continues this one"):
        ARCHIVE.remove(parent)
    ARCHIVE.remove(fork)
    ARCHIVE.remove(parent)
    assert list(ARCHIVE.stored(tmp_path)) == []


def test_nothing_outside_of_the_home_is_touched(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    real = put(outside, HEAD)
    (home / "sessions").symlink_to(outside / "sessions")
    with pytest.raises(Broken, match="outside its home"):
        ARCHIVE.remove(found(home, MINE))
    assert real.path.exists()
    (home / "sessions").unlink()
    linked = put(home, HEAD)
    linked.path.unlink()
    linked.path.symlink_to(real.path)
    ARCHIVE.remove(found(home, MINE))
    assert (real.path.exists(), linked.path.is_symlink()) == (True, False)
