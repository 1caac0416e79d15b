"""Vibe's sessions repaired and removed: what the new session holds, and that nothing else is touched."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.agents.test_vibe_format import (
    CALL,
    ID,
    MAKERS,
    NEW_ID,
    TURNS,
    answer,
    old_session,
    store,
    user,
)

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.vibe.archive import ARCHIVE
from segue.agents.vibe.format import FORMAT
from segue.core.errors import Broken, NotFound
from segue.core.transcript import Entry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
NEW = FIXTURES / "vibe-3.0.2"
STORE, IMPORT = "a416cb61-f9ed-8cfb-e4f7-27b1b0f3a0b7", "d19e88cb-fb65-7ef0-bb89-7e118a9814ef"
IMPORTED = "2683254b-d9ef-b920-2903-8b9954d597ce"
THIRD_ID = "33333333-3333-4333-8333-333333333333"
RESULT = {"role": "tool", "content": "a.txt", "name": "bash", "tool_call_id": "c1"}
CALLING = answer(None, tool_calls=[CALL])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def find(home: Path, session: str = ID) -> StoredSession:
    found = FORMAT.find(home, session)
    assert found is not None
    return found


def entries(home: Path, session: str = NEW_ID) -> list[Entry]:
    return [entry for record in ARCHIVE.read(find(home, session)) for entry in record.entries]


def kinds(home: Path, session: str = NEW_ID) -> list[str]:
    return [entry.kind for entry in entries(home, session)]


def texts(home: Path, session: str = NEW_ID) -> list[str]:
    return [entry.text for entry in entries(home, session) if entry.kind in ("user", "assistant")]


def tree(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def repair(home: Path, session: str = ID, **mending: Any) -> RepairedCopy:
    """The original and all around it stay as they are; nothing half written is left."""
    before = tree(home)
    mended = ARCHIVE.repair(find(home, session), NEW_ID, RepairOptions(**mending))
    after = tree(home)
    assert {name: after[name] for name in before} == before
    assert all(str(home / name).startswith(str(mended.path)) for name in after.keys() - before.keys())
    files = [path for path in mended.path.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o077 for path in (mended.path, *files)} == {0}
    return mended


def consistent(path: Path) -> bool:
    """Every file of a store is what its name, or the file that names it, says."""
    current = msgspec.json.decode((path / "CURRENT").read_bytes())
    generation = path / "generations" / current["generation"]
    whole = [(generation / "manifest.json", current["manifest_sha256"])]
    manifest = msgspec.json.decode((generation / "manifest.json").read_bytes())
    for name in ("checkpoint", "projection_state", "runtime_state"):
        whole.append((generation / manifest[name]["path"], manifest[name]["sha256"]))
        whole += [(path / "chunks" / f"{digest}.json", digest) for digest in manifest[name]["chunks"]]
    return all(sha256(file.read_bytes().removesuffix(b"\n")).hexdigest() == digest for file, digest in whole)


# --- repairing -----------------------------------------------------------------------------------------


@MAKERS
@pytest.mark.parametrize(
    ("turns", "done", "left"),
    [
        (TURNS, (), None),
        (
            [[user("one"), CALLING], [user("two"), answer("second")]],
            ("1 call without a result was closed",),
            ["user", "call", "result", "user", "assistant"],
        ),
        ([[user("one"), CALLING]], ("1 call without a result was closed",), ["user", "call", "result"]),
        (
            [[user("one"), RESULT, answer("first"), RESULT]],
            ("2 results without a call were left out",),
            ["user", "assistant"],
        ),
        (
            [[user("one"), CALLING, RESULT, RESULT, answer("")]],
            ("1 result without a call was left out", "1 empty answer was left out"),
            ["user", "call", "result"],
        ),
        (
            [[user("one"), {"role": "martian", "content": "x"}, answer("first")]],
            ("1 damaged record was left out",),
            ["user", "assistant"],
        ),
        (
            [[user("one"), CALLING, user("between"), RESULT, answer("first")]],
            ("1 call without a result was closed", "1 result without a call was left out"),
            ["user", "call", "result", "user", "assistant"],
        ),
    ],
)
def test_what_is_broken_is_put_right_and_counted(
    home: Path, make: Any, turns: Any, done: tuple[str, ...], left: list[str] | None
) -> None:
    make(home, turns)
    mended = repair(home)
    assert (mended.session, mended.done) == (NEW_ID, done)
    assert kinds(home) == (left or kinds(home, ID))
    calls = [entry.call for entry in entries(home) if entry.kind == "call"]
    assert calls == [entry.call for entry in entries(home) if entry.kind == "result"]
    assert not ARCHIVE.repair(find(home, NEW_ID), THIRD_ID, RepairOptions()).done


@MAKERS
def test_trimming_keeps_the_dialogue_and_leaves_out_output_and_images(home: Path, make: Any) -> None:
    data = "A" * 100
    inline = {"source": {"kind": "inline", "data": data}, "alias": "image", "mime_type": "image/png"}
    picture = {"type": "image", "data": data, "mimeType": "image/png"}
    shown: Any = "see" if make is old_session else [{"type": "text", "text": "see"}, picture]
    make(home, [*TURNS, [user(shown, images=[inline])]])
    mended = repair(home, trim=True)
    assert mended.done == ("1 image was replaced by a line of text", "the output of 1 tool call was left out")
    assert [entry.text for entry in entries(home) if entry.kind == "result"] == [
        "[The output of this tool call, 5 bytes, was left out.]"
    ]
    assert texts(home)[:-1] == texts(home, ID)[:-1]
    last = entries(home)[-1]
    assert (last.images, "see" in last.text, "An image of" in last.text) == ((), True, True)
    assert data.encode() not in b"".join(tree(mended.path).values())


@MAKERS
def test_only_images_that_are_too_large_are_replaced(home: Path, make: Any) -> None:
    def image(size: int) -> Any:
        data = "A" * size
        if make is old_session:
            return {"source": {"kind": "inline", "data": data}, "alias": "image", "mime_type": "image/png"}
        return {"type": "image", "data": data, "mimeType": "image/png"}

    both = [image(10), image(1000)]
    content: Any = "see" if make is old_session else [{"type": "text", "text": "see"}, *both]
    message = user(content, images=both)
    make(home, [[message]])
    assert repair(home, image_bytes=500).done == ("1 image was replaced by a line of text",)
    (entry,) = entries(home)
    assert (len(entry.images), "An image of" in entry.text) == (1, True)


@MAKERS
def test_a_repaired_copy_can_begin_at_a_later_prompt(home: Path, make: Any) -> None:
    make(home, TURNS)
    second = next(entry for entry in entries(home, ID) if entry.text == "first")
    mended = repair(home, since=second.id)
    assert mended.done == ("2 earlier messages were left out",)
    assert texts(home) == ["two", "second", "three", "third"]
    last = entries(home, ID)[-1]
    for since, why in ((last.id, "it has no prompt after"), ("yesterday", 'no event "yesterday" in')):
        before = tree(home)
        with pytest.raises((Broken, NotFound), match=why):
            ARCHIVE.repair(find(home), THIRD_ID, RepairOptions(since=since))
        assert tree(home) == before


@MAKERS
def test_an_id_that_is_taken_is_refused(home: Path, make: Any) -> None:
    make(home, TURNS)
    repair(home)
    with pytest.raises(Broken, match="already"):
        ARCHIVE.repair(find(home), NEW_ID, RepairOptions())


def test_torn_and_damaged_lines_are_dropped(home: Path) -> None:
    messages = old_session(home, TURNS) / "messages.jsonl"
    messages.write_bytes(b"\0\0\n" + messages.read_bytes() + b'{"role": "assist')
    assert repair(home).done == ("2 damaged records were left out",)
    assert texts(home) == ["one", "first", "two", "second", "three", "third"]


def test_the_meta_goes_along_and_is_made_up_where_it_is_damaged(home: Path) -> None:
    path = old_session(home, TURNS, title="Mine", title_source="manual", total_messages=99)
    meta = msgspec.json.decode((repair(home).path / "meta.json").read_bytes())
    assert (meta["session_id"], meta["title"], meta["total_messages"]) == (NEW_ID, "Mine", 8)
    (path / "meta.json").write_bytes(b"{")
    shutil.rmtree(find(home, NEW_ID).path)
    (stored,) = ARCHIVE.stored(home)
    mended = ARCHIVE.repair(stored, NEW_ID, RepairOptions())
    assert ARCHIVE.brief(find(home, NEW_ID)).trouble is None
    assert msgspec.json.decode((mended.path / "meta.json").read_bytes())["session_id"] == NEW_ID


def test_pictures_beside_an_old_session_are_found_beside_the_new_one(home: Path) -> None:
    path = old_session(home, TURNS[:1])
    picture = path / "attachments" / "a.png"
    picture.parent.mkdir()
    picture.write_bytes(b"png")
    shown = {"source": {"kind": "file", "path": str(picture)}, "alias": "a", "mime_type": "image/png"}
    with (path / "messages.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(user("see", images=[shown])) + b"\n")
    mended = ARCHIVE.repair(find(home), NEW_ID, RepairOptions())
    last = (mended.path / "messages.jsonl").read_bytes().splitlines()[-1]
    found = Path(msgspec.json.decode(last)["images"][0]["source"]["path"])
    assert (found.parent, found.read_bytes()) == (mended.path / "attachments", b"png")


def test_memory_stays_flat_whatever_the_size(home: Path) -> None:
    path = old_session(home, TURNS[:1]) / "messages.jsonl"
    with path.open("ab") as file:
        file.writelines([msgspec.json.encode(user("x" * 1_000_000)) + b"\n"] * 60)
    tracemalloc.start()
    try:
        ARCHIVE.repair(find(home), NEW_ID, RepairOptions())
        assert tracemalloc.get_traced_memory()[1] < 25_000_000
    finally:
        tracemalloc.stop()
    assert find(home, NEW_ID).size == path.stat().st_size


def test_a_new_store_is_whole_and_a_killed_turn_is_in_it(home: Path) -> None:
    shutil.copytree(NEW, home)
    mended = repair(home, STORE)
    assert (mended.done, consistent(mended.path)) == ((), True)
    old, new = entries(home, STORE), entries(home)
    for one, other in zip(old, new, strict=True):
        assert (one.kind, one.text, one.input, one.call) == (other.kind, other.text, other.input, other.call)
    assert [entry.tool for entry in new if entry.kind in ("call", "result")] == ["bash"] * 4
    brief = ARCHIVE.brief(find(home, NEW_ID))
    assert (brief.title, brief.cwd, brief.messages) == ("remember number 456", "/home/me/project", 5)


def test_a_store_with_a_damaged_chunk_keeps_the_rest(home: Path) -> None:
    path = store(home, TURNS)
    first = next(chunk for chunk in (path / "chunks").iterdir() if b'"one"' in chunk.read_bytes())
    first.write_bytes(first.read_bytes()[:-20])
    mended = repair(home)
    assert (mended.done, consistent(mended.path)) == (("1 damaged record was left out",), True)
    assert texts(home) == ["two", "second", "three", "third"]


@pytest.mark.parametrize("broken", ["runtime-state.json", "projection-state.json", "checkpoint.json"])
def test_a_store_whose_own_records_are_damaged_becomes_a_directory(home: Path, broken: str) -> None:
    path = store(home, TURNS)
    (path / "generations" / f"{7:016d}" / broken).write_bytes(b"{")
    mended = repair(home)
    assert mended.path.name.startswith("session_")
    assert texts(home) == ["one", "first", "two", "second", "three", "third"]


def test_an_older_generation_serves_where_the_newest_cannot_be_read(home: Path) -> None:
    path = store(home, TURNS)
    (path / "CURRENT").write_bytes(b"")
    repair(home)
    assert texts(home) == ["one", "first", "two", "second", "three", "third"]
    shutil.rmtree(path / "generations")
    with pytest.raises(Broken, match="nothing can be saved"):
        ARCHIVE.repair(find(home), THIRD_ID, RepairOptions())


@pytest.mark.parametrize("content", [b"", b"\n\n", b"nothing\n"])
def test_a_session_of_which_nothing_is_left_is_refused(home: Path, content: bytes) -> None:
    path = old_session(home, TURNS)
    (path / "messages.jsonl").write_bytes(content)
    with pytest.raises(Broken, match="nothing can be saved"):
        ARCHIVE.repair(find(home), NEW_ID, RepairOptions())
    assert os.listdir(path.parent) == [path.name]


# --- removing ------------------------------------------------------------------------------------------


def test_a_store_goes_with_its_entry_in_the_index_and_its_plugins_data(home: Path) -> None:
    shutil.copytree(NEW, home)
    root = home / "logs/session"
    for session in (STORE, IMPORT):
        (root / "plugins/data" / session / "vibe").mkdir(parents=True)
        (root / "plugins/data" / session / "vibe" / "x").touch()
    index = root / "unified/.session-index.json"
    other = index.read_bytes().replace(STORE.encode(), IMPORT.encode())
    entries = index.read_bytes().index(b"[{")
    both = index.read_bytes()[:-3] + b"," + other[entries + 1 :]
    index.write_bytes(both)
    before = tree(home)
    ARCHIVE.remove(find(home, STORE))
    after = tree(home)
    assert index.read_bytes() == other
    assert not [name for name in after if STORE in name]
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"logs/session/unified/.session-index.json"}
    assert {name for name in before if STORE not in name} == set(after)
    assert (root / "plugins/data" / IMPORT / "vibe" / "x").exists()


def test_a_directory_goes_with_what_points_to_it(home: Path) -> None:
    shutil.copytree(NEW, home)
    root = home / "logs/session"
    name = find(home, IMPORTED).path.name
    entry = (root / ".session_index.json").read_bytes()[1:-1]
    (root / ".session_index.json").write_bytes(b'{"session_1": {"a":  1}, ' + entry + b', "session_2": {}}')
    (root / ".last_session").mkdir()
    (root / ".last_session" / "pts1").write_text(f"{IMPORTED}\n")
    (root / ".last_session" / "pts2").write_text(f"{IMPORT}\n")
    stored = find(home, IMPORTED)
    ARCHIVE.remove(stored)
    ARCHIVE.remove(stored)
    assert (root / ".session_index.json").read_bytes() == b'{"session_1": {"a":  1}, "session_2": {}}'
    assert [path.name for path in (root / ".last_session").iterdir()] == ["pts2"]
    assert not (root / name).exists()
    assert FORMAT.find(home, IMPORT) is not None


@MAKERS
@pytest.mark.parametrize("index", [b"", b"{", b"[]", b'{"entries": 3}', b'{"entries": [3]}'])
def test_an_index_that_cannot_be_read_is_left_alone(home: Path, make: Any, index: bytes) -> None:
    make(home, TURNS)
    paths = [home / "logs/session" / name for name in (".session_index.json", "unified/.session-index.json")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(index)
    ARCHIVE.remove(find(home))
    assert [path.read_bytes() for path in paths] == [index, index]
    assert list(ARCHIVE.stored(home)) == []


@MAKERS
def test_a_link_is_removed_and_what_it_points_to_stays(home: Path, tmp_path: Path, make: Any) -> None:
    there = make(home, TURNS)
    real = tmp_path / "real"
    there.rename(real)
    there.symlink_to(real)
    before = tree(real)
    ARCHIVE.remove(find(home))
    assert (there.is_symlink(), tree(real)) == (False, before)
    make(home, TURNS)
    (home / "logs").rename(tmp_path / "logs")
    (home / "logs").symlink_to(tmp_path / "logs")
    with pytest.raises(Broken, match="outside"):
        ARCHIVE.remove(find(home))
    assert find(home).path.exists()
