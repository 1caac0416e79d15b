"""Claude's sessions as its reader shows them: recorded ones of two versions, and ones made by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import Record, StoredSession, entries_of
from segue.agents.claude.archive import ARCHIVE
from segue.agents.claude.format import FORMAT
from segue.core.transcript import Brief, Entry, is_message
from segue.core.turn import Clause

RECORDED = Path(__file__).parents[2] / "fixtures" / "sessions"
NEW, OLD = RECORDED / "claude-2.1.325", RECORDED / "claude-2.1.50"
TALKS = {NEW: "fb0d09d2-e6e5-409d-a1fe-026d75f333fb", OLD: "0f571cae-32db-447a-9f32-664cc48aa867"}
FIRST = "remember number 456 [[think about it]][[shell echo hello]][[write made.txt some words]][[say noted]]"
ID = "11111111-2222-4333-8444-555555555555"


def found(home: Path, session: str) -> StoredSession:
    there = FORMAT.find(home, session)
    assert there is not None
    return there


def told(stored: StoredSession) -> list[Entry]:
    return [entry for record in ARCHIVE.read(stored) for entry in record.entries]


def user(text: str, own: str = "u1", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"type": "user", "uuid": own, "parentUuid": None, "message": message, **more}


def assistant(*blocks: dict[str, Any], own: str = "a1", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}
    message = {"role": "assistant", "model": "some-model", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "uuid": own, "parentUuid": "u1", "message": message, **more}


def write(
    home: Path, *records: dict[str, Any] | bytes, session: str = ID, folder: str = "-p"
) -> StoredSession:
    path = home / "projects" / folder / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (each if isinstance(each, bytes) else msgspec.json.encode(each) + b"\n" for each in records)
    path.write_bytes(b"".join(lines))
    return found(home, session)


# --- what was recorded -----------------------------------------------------------------------------


@pytest.mark.parametrize("home", [NEW, OLD])
def test_all_sessions_of_a_home_are_found_and_none_of_their_subagents(home: Path) -> None:
    names = {path.stem for path in home.glob("projects/*/*.jsonl")}
    assert {stored.id for stored in ARCHIVE.stored(home)} == names
    assert len(names) == 4


@pytest.mark.parametrize("home", [NEW, OLD])
def test_a_recorded_talk_at_a_glance(home: Path) -> None:
    stored = found(home, TALKS[home])
    brief = ARCHIVE.brief(stored)
    assert (brief.cwd, brief.branch, brief.first_prompt) == ("/home/me/project", "main", FIRST)
    assert (brief.last_prompt, brief.empty, brief.side, brief.trouble) == ("and now?", False, False, None)
    assert brief.version == home.name.removeprefix("claude-")
    assert brief.created_ms is not None
    assert brief.last_used_ms is not None
    assert 0 < brief.last_used_ms - brief.created_ms < 600_000
    said = [each for each in told(stored) if each.kind in ("user", "assistant") and not each.inserted]
    assert (brief.messages, brief.messages_estimated) == (len(said), False)


def test_the_newer_version_tells_title_cost_and_context() -> None:
    brief = ARCHIVE.brief(found(NEW, TALKS[NEW]))
    assert (brief.title, brief.title_by, brief.agent_name) == ("My own title", "user", "My own title")
    assert brief.cost_usd == pytest.approx(0.1517328)
    assert (brief.tokens, brief.context, brief.model) == (80578, 13540, "claude-opus-5-5")


def test_the_older_version_is_titled_by_its_first_prompt() -> None:
    brief = ARCHIVE.brief(found(OLD, TALKS[OLD]))
    assert (brief.title, brief.title_by, brief.cost_usd, brief.tokens) == (FIRST, "prompt", None, None)
    assert (brief.context, brief.model) == (19403, "claude-sonnet-4-6")


@pytest.mark.parametrize("home", [NEW, OLD])
def test_what_was_said_called_and_returned_is_told_in_order(home: Path) -> None:
    entries = [each for each in told(found(home, TALKS[home])) if not each.inserted]
    dialogue = [(each.kind, each.text or each.tool) for each in entries if each.kind != "state"]
    assert dialogue[:7] == [
        ("user", FIRST),
        ("thinking", "about it"),
        ("call", "Bash"),
        ("result", "hello"),
        ("call", "Write"),
        ("result", dialogue[5][1]),
        ("assistant", "noted"),
    ]
    assert dialogue[7:9] == [("user", "what number?"), ("assistant", "456")]
    calls = [each.call for each in entries if each.kind == "call"]
    assert calls == [each.call for each in entries if each.kind == "result"]


@pytest.mark.parametrize("home", [NEW, OLD])
def test_a_compaction_is_a_boundary_with_its_summary(home: Path) -> None:
    entries = told(found(home, TALKS[home]))
    (boundary,) = [each for each in entries if each.kind == "boundary"]
    assert "A rehearsal took place" in boundary.text
    (mark,) = [each for each in entries if each.label == "compaction"]
    assert boundary.parent == mark.native


@pytest.mark.parametrize("home", [NEW, OLD])
def test_every_recorded_line_is_known_and_every_parent_is_there(home: Path) -> None:
    for stored in ARCHIVE.stored(home):
        seen: set[str] = set()
        for entry in told(stored):
            assert entry.kind not in ("unknown", "damaged"), entry
            assert entry.parent is None or entry.parent in seen, entry
            seen.add(entry.native)


def test_what_a_resume_brings_back_is_told() -> None:
    states = {each.label: each for each in told(found(NEW, TALKS[NEW])) if each.kind == "state"}
    assert "be brief" in states["project instructions"].text
    assert "git status" in states["git snapshot"].text
    assert states["title"].restored
    assert not states["request"].restored


def test_a_failed_request_is_said_by_nobody() -> None:
    for home, session in ((NEW, "a6e4c3a6-f66a-4a19-b3f0-7f8a9393ae87"),):
        (error,) = [each for each in told(found(home, session)) if each.kind == "assistant"]
        assert (error.failed, error.inserted, error.model) == (True, True, None)


@pytest.mark.parametrize("home", [NEW, OLD])
def test_a_subagents_transcript_is_a_side_chain(home: Path) -> None:
    (path,) = home.glob("projects/*/*/subagents/*.jsonl")
    side = StoredSession(id=path.stem, home=home, file=str(path), size=path.stat().st_size, changed_ns=0)
    assert ARCHIVE.brief(side).side
    assert all(each.side for each in told(side) if each.native)


@pytest.mark.parametrize("home", [NEW, OLD])
def test_a_session_has_all_its_files(home: Path) -> None:
    (agent,) = home.glob("projects/*/*/subagents/*.jsonl")
    files = ARCHIVE.files(found(home, agent.parent.parent.name))
    assert agent in files
    assert len({path.suffix for path in files}) == 2
    assert all(path.is_relative_to(home) for path in files)


# --- backwards, from a place, half written ---------------------------------------------------------


@pytest.mark.parametrize("home", [NEW, OLD])
def test_backwards_is_forwards_reversed(home: Path) -> None:
    for stored in ARCHIVE.stored(home):
        forwards = list(ARCHIVE.read(stored))
        assert list(ARCHIVE.back(stored)) == forwards[::-1]
        middle = forwards[len(forwards) // 2]
        assert list(ARCHIVE.read(stored, middle.next)) == forwards[len(forwards) // 2 + 1 :]
        assert list(ARCHIVE.back(stored, middle.start)) == forwards[: len(forwards) // 2][::-1]


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    stored = write(tmp_path, user("hello"), b'{"type":"assistant","mess')
    assert [each.text for each in told(stored)] == ["hello"]
    assert ARCHIVE.brief(stored).first_prompt == "hello"


def test_a_file_that_shrinks_while_it_is_read_ends_early(tmp_path: Path) -> None:
    stored = write(tmp_path, *(user(f"{n} " + "word " * 400, f"u{n}") for n in range(2000)))
    records = ARCHIVE.read(stored)
    first = next(records)
    os.truncate(stored.path, 100)
    rest = list(records)
    assert first.entries[0].text.startswith("0 ")
    assert 0 < len(rest) < 1999
    assert all(each.kind == "user" for record in rest for each in record.entries)


def test_a_long_line_is_read_and_its_image_is_only_measured(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 3_000_000}}
    prompt = user("look")
    prompt["message"]["content"].append(image)
    (entry,) = told(write(tmp_path, prompt))
    assert (entry.text, entry.images) == ("look", (3_000_000,))


def test_the_newest_page_of_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    stored = write(tmp_path, user("first"), b"x" * 30_000_000 + b"\n", user("last"))
    newest: Record = next(iter(ARCHIVE.back(stored)))
    assert [each.text for each in newest.entries] == ["last"]


# --- what nobody expects ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "label"),
    [
        (b'{"type":"news","uuid":"n1","parentUuid":"u1"}', "unknown", "news"),
        (b'{"type":"user","uuid":"n1","parentUuid":"u1","message":{"content":17}}', "unknown", "user"),
        (b'{"type":["user"],"uuid":"n1","parentUuid":"u1"}', "unknown", ""),
        (b'{"type":"progress","uuid":"n1","parentUuid":"u1"}', "state", "progress"),
        (
            b'{"type":"attachment","uuid":"n1","parentUuid":"u1","attachment":{"type":"new_one"}}',
            "state",
            "new one",
        ),
        (
            b'{"type":"system","subtype":"turn_duration","uuid":"n1","parentUuid":"u1"}',
            "state",
            "turn duration",
        ),
    ],
)
def test_a_record_of_the_chain_keeps_its_place_in_it(line: bytes, kind: str, label: str) -> None:
    (entry,) = ARCHIVE.entries(line, 9)
    assert (entry.id, entry.kind, entry.label) == ("9.0", kind, label)
    assert (entry.native, entry.parent) == ("n1", "u1")


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b'{"type":"user"', b"nonsense", b"[" * 100_000])
def test_what_is_no_json_is_damaged(line: bytes) -> None:
    (entry,) = ARCHIVE.entries(line, 0)
    assert entry.kind == "damaged"
    assert entry.text


@pytest.mark.parametrize("line", [b"17", b"null", b"[]", b'"words"'])
def test_json_that_is_no_record_is_unknown(line: bytes) -> None:
    (entry,) = ARCHIVE.entries(line, 0)
    assert entry.kind == "unknown"


@pytest.mark.parametrize(
    ("record", "label", "text", "restored"),
    [
        ({"type": "custom-title", "customTitle": "Mine"}, "title", "Mine", True),
        ({"type": "ai-title", "aiTitle": "Its own"}, "title by the model", "Its own", False),
        ({"type": "summary", "summary": "All of it"}, "summary", "All of it", False),
        ({"type": "tag", "tag": "blue"}, "tag", "blue", True),
        ({"type": "file-history-snapshot", "snapshot": {}}, "file history", "", True),
        ({"type": "task-summary", "summary": "half done"}, "task", "half done", True),
        ({"type": "worktree-state", "worktreeSession": {}}, "worktree", "", True),
    ],
)
def test_notes_say_what_they_are(record: dict[str, Any], label: str, text: str, restored: bool) -> None:
    (entry,) = ARCHIVE.entries(msgspec.json.encode(record), 0)
    assert (entry.kind, entry.label, entry.text, entry.restored) == ("state", label, text, restored)


def test_what_the_cli_put_in_is_marked_and_a_command_is_shown_as_typed() -> None:
    typed = "<command-name>/review</command-name>\n<command-args>12</command-args>"
    texts = ("[Request interrupted by user]", "<local-command-stdout>x</local-command-stdout>", typed, "hi")
    entries = [ARCHIVE.entries(msgspec.json.encode(user(text)), 0)[0] for text in texts]
    assert [each.inserted for each in entries] == [True, True, False, False]
    assert entries[2].text == "/review 12"


def test_an_empty_answer_and_one_of_several_blocks() -> None:
    (empty,) = ARCHIVE.entries(msgspec.json.encode(assistant()), 0)
    assert (empty.kind, empty.text, empty.tokens) == ("assistant", "", 112)
    blocks = {"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {"c": 1}}
    said, call = ARCHIVE.entries(msgspec.json.encode(assistant(*blocks)), 4)
    assert (said.id, call.id, call.input, call.call) == ("4.0", "4.1", {"c": 1}, "t")


# --- briefs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notes", "title", "by"),
    [
        ([], "hello", "prompt"),
        ([{"type": "ai-title", "aiTitle": "Its own"}], "Its own", "agent"),
        (
            [{"type": "custom-title", "customTitle": "Mine"}, {"type": "ai-title", "aiTitle": "x"}],
            "Mine",
            "user",
        ),
        ([{"type": "custom-title", "customTitle": t} for t in ("One", 'T"w\\o')], 'T"w\\o', "user"),
        ([{"type": "summary", "summary": "All of it"}], "All of it", "agent"),
        ([{"type": "last-prompt", "lastPrompt": "newest"}], "newest", "prompt"),
    ],
)
def test_titles(tmp_path: Path, notes: list[dict[str, Any]], title: str, by: str) -> None:
    brief = ARCHIVE.brief(write(tmp_path, user("hello"), *notes))
    assert (brief.title, brief.title_by) == (title, by)


def test_a_prompt_that_carries_a_conversation_is_known_by_what_the_user_said(tmp_path: Path) -> None:
    carried = "--- prior context ---\n" + "The record. " * 40 + "\n\n--- user ---\nold\n\n--- user ---\nnew"
    noted = {"type": "last-prompt", "lastPrompt": carried.replace("\n", " ")[:200]}
    brief = ARCHIVE.brief(write(tmp_path, user(carried), noted))
    assert (brief.first_prompt, brief.last_prompt) == ("new", "new")


def test_titles_and_directories_in_the_middle_of_a_long_file_are_not_looked_for(tmp_path: Path) -> None:
    filler = [user("word " * 2000, f"f{n}") for n in range(30)]
    title = {"type": "custom-title", "customTitle": "Mine"}
    assert ARCHIVE.brief(write(tmp_path, user("hello"), *filler, title, *filler)).title == "hello"
    brief = ARCHIVE.brief(
        write(tmp_path, user("hello", cwd="/first"), *filler, user("bye", cwd="/second"), title)
    )
    assert (brief.title, brief.cwd, brief.first_prompt, brief.last_prompt) == (
        "Mine",
        "/first",
        "hello",
        "bye",
    )
    assert brief.messages_estimated
    assert brief.messages is not None
    assert 20 <= brief.messages <= 50


@pytest.mark.parametrize("home", [NEW, OLD])
def test_a_count_by_bytes_is_the_count_of_what_is_read(home: Path) -> None:
    for stored in ARCHIVE.stored(home):
        assert ARCHIVE.count(stored) == sum(map(is_message, entries_of(ARCHIVE, stored)))


def test_json_with_spaces_is_read_as_well(tmp_path: Path) -> None:
    line = b'{"type": "user", "cwd": "/x", "message": {"role": "user", "content": "hello"}, "uuid": "u"}\n'
    brief = ARCHIVE.brief(write(tmp_path, line))
    assert (brief.title, brief.cwd, brief.messages) == ("hello", "/x", 1)


def test_a_session_in_which_nobody_spoke_is_empty(tmp_path: Path) -> None:
    assert ARCHIVE.brief(write(tmp_path)).empty
    assert ARCHIVE.brief(write(tmp_path, {"type": "mode", "mode": "normal"})).empty
    assert not ARCHIVE.brief(write(tmp_path, user("hello"))).empty


def test_a_fork_names_where_it_comes_from(tmp_path: Path) -> None:
    stored = write(tmp_path, user("hello", forkedFrom={"sessionId": "the-other", "messageUuid": "m"}))
    assert ARCHIVE.brief(stored).parent == "the-other"


# --- finding ---------------------------------------------------------------------------------------


def test_only_sessions_are_found_links_among_them_and_the_newer_of_two(tmp_path: Path) -> None:
    stored = write(tmp_path, user("hello"))
    folder, other = stored.path.parent, "22222222-2222-4333-8444-555555555555"
    (tmp_path / "elsewhere.jsonl").write_bytes(stored.path.read_bytes())
    (folder / f"{other}.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    (folder / "33333333-2222-4333-8444-555555555555.jsonl").mkdir()
    (folder / "44444444-2222-4333-8444-555555555555.jsonl").symlink_to(tmp_path / "nowhere")
    for name in ("agent-abc.jsonl", f".{ID}.part", f"{ID}.jsonl.bak", "notes.txt"):
        (folder / name).write_text("x")
    (tmp_path / "projects" / "a-file").write_text("x")
    newer = write(tmp_path, user("hello again"), folder="-q")
    os.utime(newer.path, ns=(stored.changed_ns + 10**9,) * 2)
    seen = {each.id: each.path for each in ARCHIVE.stored(tmp_path)}
    assert seen == {ID: newer.path, other: folder / f"{other}.jsonl"}
    assert ARCHIVE.brief(found(tmp_path, other)).title == "hello"
    assert found(tmp_path, ID).path == newer.path


@pytest.mark.parametrize("session", ["../../etc", "", "agent-abc", "99999999-2222-4333-8444-555555555555"])
def test_what_is_not_there_is_not_found(tmp_path: Path, session: str) -> None:
    assert FORMAT.find(tmp_path, session) is None
    assert list(ARCHIVE.stored(tmp_path)) == []


def test_what_cannot_be_read_is_told_and_not_raised(tmp_path: Path) -> None:
    folder = StoredSession(id=ID, home=tmp_path, file=str(tmp_path), size=0, changed_ns=5_000_000)
    assert ARCHIVE.brief(folder) == Brief(
        last_used_ms=5,
        trouble="it cannot be read: Is a directory",
        trouble_clauses=(Clause(code="session.unreadable", values={"why": "Is a directory"}),),
    )
    assert [each.kind for each in told(folder)] == ["damaged"]
    assert [each.entries[0].kind for each in ARCHIVE.back(folder)] == ["damaged"]


@pytest.mark.parametrize(
    ("settings", "days"), [(None, 30), ("{}", 30), ('{"cleanupPeriodDays":7}', 7), ("broken", 30), ("[]", 30)]
)
def test_it_expires_by_the_settings_of_its_home(tmp_path: Path, settings: str | None, days: int) -> None:
    stored = write(tmp_path, user("hello"))
    if settings is not None:
        (tmp_path / "settings.json").write_text(settings)
    expires = ARCHIVE.expires_ms(stored, ARCHIVE.brief(stored))
    assert expires == stored.changed_ns // 1_000_000 + days * 86_400_000
