"""Vibe's sessions as others see them: what the CLI wrote, and damage made by hand."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.agents.test_vibe_format import ID, MAKERS, TURNS, answer, begun, old_session, store, user

from segue.agents.base import Record, SessionArchive, StoredSession
from segue.agents.vibe.adapter import AGENT
from segue.agents.vibe.format import FORMAT
from segue.core.transcript import Entry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
OLD, NEW = FIXTURES / "vibe-2.18.4", FIXTURES / "vibe-3.0.2"
SECOND, KILLED = "dd477d16-147d-124f-c24d-3e9433a94753", "a5ce37cd-cc9c-e670-7ddb-e41bb45dc340"
STORE, ORPHAN = "a416cb61-f9ed-8cfb-e4f7-27b1b0f3a0b7", "a46f3e97-5a37-0200-001c-26577cbec40a"
COMPACTED, IMPORT = "dc21a09b-11e8-1712-9f1a-178c10a66ad1", "d19e88cb-fb65-7ef0-bb89-7e118a9814ef"
IMPORTED = "2683254b-d9ef-b920-2903-8b9954d597ce"
TWO = "TWO [[shell echo out-502]] [[say done-2]]"
DIALOGUE = ["user", "assistant", "user", "call", "result", "assistant"]


def reader() -> SessionArchive:
    found = AGENT.archive()
    assert found is not None
    return found


READER = reader()


def find(home: Path, session: str = ID) -> StoredSession:
    found = FORMAT.find(home, session)
    assert found is not None
    return found


def entries(stored: StoredSession) -> list[Entry]:
    return [entry for record in READER.read(stored) for entry in record.entries]


def kinds(stored: StoredSession) -> list[str]:
    return [entry.kind for entry in entries(stored)]


# --- what the CLI wrote --------------------------------------------------------------------------------


def test_all_sessions_of_a_home_are_listed_in_both_forms() -> None:
    assert {stored.id for stored in READER.stored(OLD)} >= {SECOND, KILLED}
    listed = {stored.id: stored.appends for stored in READER.stored(NEW)}
    assert listed == {STORE: False, ORPHAN: False, COMPACTED: False, IMPORT: False, IMPORTED: True}
    for home in (OLD, NEW):
        assert all(FORMAT.find(home, stored.id) == stored for stored in READER.stored(home))


def test_a_directory_of_the_old_version_at_a_glance() -> None:
    brief = READER.brief(find(OLD, SECOND))
    assert (brief.cwd, brief.branch, brief.model) == ("/home/me/project", "feature", "rehearsal")
    assert (brief.title, brief.title_by) == ("remember number 456", "prompt")
    assert (brief.first_prompt, brief.last_prompt) == ("remember number 456", TWO)
    assert (brief.messages, brief.messages_estimated) == (4, False)
    assert (brief.tokens, brief.context, brief.after) == (17359, 8714, 2)
    assert brief.cost_usd == pytest.approx(0.0069676)
    assert (brief.created_ms, brief.last_used_ms) == (1794797173987, 1794797175065)
    assert (brief.agent_name, brief.parent, brief.trouble) == ("auto-approve", None, None)


def test_a_store_of_the_new_version_at_a_glance() -> None:
    brief = READER.brief(find(NEW, STORE))
    assert (brief.cwd, brief.model, brief.title) == ("/home/me/project", "rehearsal", "remember number 456")
    assert (brief.first_prompt, brief.last_prompt) == (
        "remember number 456",
        "KILLED [[shell echo out-507]] [[hang]]",
    )
    assert (brief.messages, brief.tokens, brief.context, brief.after) == (5, 24383, 8196, 2)
    assert (brief.created_ms, brief.side, brief.empty) == (1794797082472, False, False)
    killed = READER.brief(find(NEW, ORPHAN))
    assert (killed.title, killed.messages) == ("ORPHAN [[shell sleep 60]] [[say late]]", 1)
    assert (killed.messages_estimated, killed.empty) == (False, False)


def test_what_the_new_version_took_in_names_the_old_session_its_parent() -> None:
    assert READER.brief(find(NEW, IMPORT)).parent == IMPORTED
    assert READER.brief(find(NEW, IMPORTED)).parent is None


@pytest.mark.parametrize(("home", "session"), [(OLD, SECOND), (NEW, STORE)])
def test_entries_say_what_happened(home: Path, session: str) -> None:
    found = entries(find(home, session))[:6]
    assert [entry.kind for entry in found] == DIALOGUE
    assert [found[n].text for n in (0, 1, 2, 5)] == ["remember number 456", "Noted: 456.", TWO, "done-2"]
    call, result = found[3:5]
    assert (call.tool, call.input, call.call) == ("bash", {"command": "echo out-502"}, result.call)
    assert "out-502" in result.text
    assert not result.failed


def test_a_turn_that_did_not_end_is_read_from_the_journal() -> None:
    found = entries(find(NEW, STORE))[6:]
    assert [entry.kind for entry in found] == ["user", "call", "result"]
    assert (found[0].at_ms, "out-507" in found[2].text) == (1794797111142, True)
    assert kinds(find(NEW, ORPHAN)) == ["user", "call"]


def test_what_was_said_before_a_compaction_is_still_read_but_not_restored() -> None:
    found = entries(find(NEW, COMPACTED))
    assert [(entry.kind, entry.restored) for entry in found] == [
        *(("user", False), ("assistant", False), ("user", False)),
        *(("user", True), ("user", True), ("boundary", True), ("assistant", True)),
    ]
    assert (found[0].text.startswith("remember number 111"), found[5].text) == (
        True,
        "A rehearsal took place.",
    )
    assert (found[3].inserted, found[4].again) == (True, True)
    brief = READER.brief(find(NEW, COMPACTED))
    assert (brief.title or "").startswith("remember number 111")
    assert brief.messages_estimated


@MAKERS
def test_a_prompt_that_fills_the_windows_is_neither_nothing_nor_the_title(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "one", [[user("x" * 200_000)]])
    brief = READER.brief(find(tmp_path / "one"))
    assert (brief.empty, brief.first_prompt, brief.messages_estimated) == (False, None, True)
    make(tmp_path / "two", [[user("x" * 200_000), answer("y" * 70_000)], [user("two"), answer("second")]])
    brief = READER.brief(find(tmp_path / "two"))
    assert (brief.empty, brief.first_prompt, brief.title, brief.last_prompt) == (False, None, None, "two")


@pytest.mark.parametrize("home", [OLD, NEW])
def test_backwards_is_forwards_reversed_from_every_place(home: Path) -> None:
    for stored in READER.stored(home):
        records = list(READER.read(stored))
        assert list(READER.back(stored)) == records[::-1]
        for n, record in enumerate(records):
            assert list(READER.back(stored, record.start)) == records[:n][::-1]


def test_nothing_expires_and_a_copy_needs_the_newest_generation_only(tmp_path: Path) -> None:
    shutil.copytree(NEW, tmp_path / "home")
    stored = find(tmp_path / "home", STORE)
    wanted = set(READER.files(stored))
    assert wanted == {path for path in stored.path.rglob("*") if path.is_file()}
    old = stored.path / "generations" / f"{1:016d}" / "manifest.json"
    old.parent.mkdir()
    old.touch()
    (stored.path / "chunks" / "old.json").touch()
    assert set(READER.files(stored)) == wanted
    assert {path.name for path in READER.files(find(OLD, SECOND))} == {"meta.json", "messages.jsonl"}
    assert READER.expires_ms(stored, READER.brief(stored)) is None


def test_a_copy_needs_the_plugins_that_the_session_was_begun_with(tmp_path: Path) -> None:
    shutil.copytree(NEW, tmp_path / "home")
    stored = find(tmp_path / "home", STORE)
    plugin = "99661bff0021b9aaa31a2f8446f4388ef82bad88e8c8e2298879981b9f0459b1"
    catalogue = "600cc68fb3aa8b3e9b25931a8811c5ef595c414ae4933e04d001854b2e19c853"
    root = tmp_path / "home/logs/session/plugins"
    wanted = {
        root
        / "manifests"
        / "99"
        / plugin: b'{"entries":[{"sha256":"abcd"},{"sha256":"../x"},{"kind":"dir"}]}',
        root / "blobs" / "60" / catalogue: b"{}",
        root / "blobs" / "ab" / "abcd": b"a file",
        root / "data" / STORE / "vibe" / "x": b"",
    }
    for path, body in {**wanted, root / "blobs" / "ee" / "eeee": b"of another"}.items():
        path.parent.mkdir(parents=True)
        path.write_bytes(body)
    found = set(READER.files(stored))
    assert {path for path in found if path.is_relative_to(root)} == set(wanted)


# --- made by hand --------------------------------------------------------------------------------------


@MAKERS
def test_thoughts_injections_and_unknown_roles_are_told_apart(tmp_path: Path, make: Any) -> None:
    extra = {"role": "user", "content": "a reminder", "injected": True, "source": "injection"}
    make(tmp_path, [*TURNS, [extra, {"role": "martian", "content": "?"}]])
    found = entries(find(tmp_path))
    assert [entry.kind for entry in found] == [
        *("user", "assistant", "user", "thinking", "call", "result", "assistant", "user", "assistant"),
        *("user", "unknown"),
    ]
    assert (found[-2].inserted, found[-1].label) == (True, "martian")
    brief = READER.brief(find(tmp_path))
    assert (brief.first_prompt, brief.last_prompt, brief.messages) == ("one", "three", 6)


@MAKERS
def test_an_empty_answer_and_an_empty_session(tmp_path: Path, make: Any) -> None:
    make(tmp_path, [[{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]])
    assert [(entry.kind, entry.text) for entry in entries(find(tmp_path))] == [
        ("user", "x"),
        ("assistant", ""),
    ]
    assert READER.brief(find(tmp_path)).messages == 1
    make(tmp_path / "other", [[]])
    assert READER.brief(find(tmp_path / "other")).empty


@MAKERS
def test_images_are_measured_and_never_shown(tmp_path: Path, make: Any) -> None:
    data = "A" * 1000
    picture = {"type": "image", "data": data, "mimeType": "image/png"}
    inline = {"source": {"kind": "inline", "data": data}, "alias": "image", "mime_type": "image/png"}
    text: Any = "see" if make is old_session else [{"type": "text", "text": "see"}, picture]
    make(tmp_path, [[{"role": "user", "content": text, "images": [inline]}]])
    (entry,) = entries(find(tmp_path))
    assert (entry.text, entry.images) == ("see", (1000,))


def test_lines_that_cannot_be_read_are_named_and_a_torn_one_waits(tmp_path: Path) -> None:
    path = old_session(tmp_path, TURNS[:1]) / "messages.jsonl"
    with path.open("ab") as file:
        file.write(b'no json\n{"content": "no role"}\n{"role": "user", "content": 7}\n["list"]\n{"role": "us')
    stored = find(tmp_path)
    assert kinds(stored) == ["user", "assistant", *["damaged"] * 4]
    assert [r.entries[0].kind for r in READER.back(stored)] == [*["damaged"] * 5, "assistant", "user"]
    brief = READER.brief(stored)
    assert (brief.first_prompt, brief.last_prompt, brief.messages) == ("one", "one", 2)


def test_what_is_new_in_a_directory_is_read_from_where_one_stopped(tmp_path: Path) -> None:
    path = old_session(tmp_path, TURNS) / "messages.jsonl"
    whole = list(READER.read(find(tmp_path)))
    assert list(READER.read(find(tmp_path), whole[3].next)) == whole[4:]
    with path.open("ab") as file:
        file.write(b'{"role":"user","content":"later"}\n')
    (later,) = READER.read(find(tmp_path), whole[-1].next)
    assert later.entries[0].text == "later"


def test_a_file_that_shrinks_and_a_huge_line_do_no_harm(tmp_path: Path) -> None:
    path = old_session(tmp_path, TURNS * 50) / "messages.jsonl"
    stored = find(tmp_path)
    records = READER.back(stored)
    next(records)
    path.write_bytes(b"")
    assert all(isinstance(record, Record) for record in records)
    assert list(READER.read(stored, 10**9)) == []
    with path.open("wb") as file:
        file.truncate(70 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"role":"user","content":"after"}\n')
    assert kinds(find(tmp_path)) == ["damaged", "user"]
    assert READER.brief(find(tmp_path)).last_prompt == "after"


@MAKERS
def test_the_messages_of_a_large_session_are_carried_over_from_its_ends(tmp_path: Path, make: Any) -> None:
    turn = [{"role": "user", "content": "a" * 500}, {"role": "assistant", "content": "b" * 500}]
    make(tmp_path, [[{"role": "user", "content": "first"}, turn[1]], *[turn] * 400])
    brief = READER.brief(find(tmp_path))
    assert (brief.first_prompt, brief.last_prompt, brief.messages_estimated) == ("first", "a" * 500, True)
    assert brief.messages == pytest.approx(802, rel=0.03)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"session_id": 7}', b'{"title": "\\ud800"}']
)
def test_a_meta_that_cannot_be_read_takes_nothing_but_itself(tmp_path: Path, content: bytes) -> None:
    (old_session(tmp_path, TURNS) / "meta.json").write_bytes(content)
    (stored,) = READER.stored(tmp_path)
    assert stored.id == ID[:8]  # enough for Vibe to find it
    brief = READER.brief(stored)
    assert (brief.first_prompt, brief.messages, "meta.json" in (brief.trouble or "")) == ("one", 6, True)


def test_an_id_that_would_be_a_path_is_not_believed(tmp_path: Path) -> None:
    path = old_session(tmp_path, TURNS)
    for session in (f"{ID[:8]}/../x", "another-id-altogether"):
        (path / "meta.json").write_bytes(msgspec.json.encode({"session_id": session}))
        assert [stored.id for stored in READER.stored(tmp_path)] == [ID[:8]]


def test_names_the_user_gave_and_marks_are_told(tmp_path: Path) -> None:
    old_session(
        tmp_path, TURNS, title="Mine", title_source="manual", pinned_at="2026-01-01", parent_session_id="p"
    )
    brief = READER.brief(find(tmp_path))
    assert (brief.title, brief.title_by, brief.tags, brief.parent) == ("Mine", "user", ("pinned",), "p")
    old_session(tmp_path / "b", TURNS, title="A made one", title_source="auto")
    assert READER.brief(find(tmp_path / "b")).title_by == "agent"


@pytest.mark.parametrize(
    ("broken", "content"),
    [
        ("CURRENT", b""),
        ("CURRENT", b'{"generation": "../../../../../etc"}'),
        ("generations/0000000000000007/manifest.json", b"{"),
        ("generations/0000000000000007/manifest.json", b'{"checkpoint": {"chunks": ["../../../x"]}}'),
    ],
)
def test_a_store_that_cannot_be_opened_is_reported(tmp_path: Path, broken: str, content: bytes) -> None:
    (store(tmp_path, TURNS) / broken).write_bytes(content)
    (stored,) = READER.stored(tmp_path)
    assert READER.brief(stored).trouble
    assert kinds(stored) == [e.kind for r in READER.back(stored) for e in r.entries] == ["damaged"]


def test_a_chunk_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    path = store(tmp_path, TURNS, journal=begun("four") + b'{"half')
    first = next(chunk for chunk in (path / "chunks").iterdir() if b'"one"' in chunk.read_bytes())
    first.write_bytes(first.read_bytes()[:-20])
    assert kinds(find(tmp_path))[:2] == ["damaged", "user"]
    assert kinds(find(tmp_path))[-1] == "user"
    assert READER.brief(find(tmp_path)).last_prompt == "four"
    first.unlink()
    first.mkdir()
    assert kinds(find(tmp_path))[0] == "damaged"
    assert READER.files(find(tmp_path))


def test_one_message_of_an_unknown_form_is_named_among_the_others(tmp_path: Path) -> None:
    path = store(
        tmp_path, [[{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"text": 7}]}]]
    )
    assert kinds(find(tmp_path)) == ["user", "damaged"]
    assert path.is_dir()


def test_links_are_followed_and_what_is_no_session_is_passed_over(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = old_session(tmp_path / "real", TURNS)
    root = home / "logs/session"
    (root / "unified" / ".hidden").mkdir(parents=True)
    (root / "unified" / "empty").mkdir()
    (root / "session_1_2_33333333").mkdir()
    (root / "session_1_2_44444444" / "messages.jsonl").mkdir(parents=True)
    (root / ".session_1_2_55555555.part").mkdir()
    (root / "plugins").mkdir()
    (root / "session_file").touch()
    (root / path.name).symlink_to(path)
    (root / "session_1_2_66666666").symlink_to(tmp_path / "nowhere")
    assert [stored.id for stored in READER.stored(home)] == [ID]
    assert list(READER.stored(tmp_path / "nowhere")) == []
    assert FORMAT.find(home, "../../x") is None


def test_a_newer_store_is_read_and_named(tmp_path: Path) -> None:
    store(tmp_path, TURNS, minor=10)
    assert "newer" in (READER.brief(find(tmp_path)).trouble or "")
    assert len(kinds(find(tmp_path))) == 9


def test_a_change_of_either_file_shows(tmp_path: Path) -> None:
    path = old_session(tmp_path, TURNS)
    for name in ("meta.json", "messages.jsonl"):
        before = find(tmp_path).changed_ns
        os.utime(path / name, ns=(before + 5, before + 5))
        assert find(tmp_path).changed_ns == before + 5


def test_meta_of_either_writing_style_gives_the_same_brief(tmp_path: Path) -> None:
    """As Vibe writes it, its bulk is passed over; in any other order it is decoded as a whole."""
    shutil.copytree(OLD, tmp_path / "home")
    stored = find(tmp_path / "home", SECOND)
    fast = READER.brief(stored)
    meta = stored.path / "meta.json"
    meta.write_bytes(msgspec.json.encode(msgspec.json.decode(meta.read_bytes()), order="sorted"))
    assert READER.brief(stored) == fast
