"""Codex's sessions read where they lie: as the real CLI wrote them, and as nobody should have."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from segue.agents.base import Record, StoredSession
from segue.agents.codex.archive import ARCHIVE
from segue.agents.codex.format import FORMAT
from segue.core.transcript import Entry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
VERSIONS = ("0.166.0", "0.104.0")
MINE = "01a1e24e-5307-79f1-8454-38691672336e"
OTHER = "01a1e24e-780e-7471-a096-1513a3d6ec7c"
WHEN = "2026-01-02T03:04:05.678Z"
ONE, TWO = "remember number 111 [[think hm]] [[say done-1]]", "[[shell echo tool-ran]] [[say done-2]]"


def fixture(version: str, name: str) -> StoredSession:
    """The session of a fixture; of a fork, the fork."""
    found = sorted(ARCHIVE.stored(FIXTURES / f"codex-{version}" / name), key=lambda one: one.path.name)
    return found[-1]


def line(kind: str, **payload: Any) -> bytes:
    return msgspec.json.encode({"timestamp": WHEN, "type": kind, "payload": payload}) + b"\n"


def message(role: str, text: str) -> bytes:
    return line("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])


HEAD = line("session_meta", id=MINE, timestamp=WHEN, cwd="/there", originator="x", cli_version="0.1.0")


def put(
    home: Path, *lines: bytes, thread: str = MINE, day: str = "2026/01/02", suffix: str = ""
) -> StoredSession:
    path = home / "sessions" / day / f"rollout-{day.replace('/', '-')}T03-04-05-{thread}.jsonl{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = b"".join(lines)
    path.write_bytes(zstandard.compress(text) if suffix else text)
    return found(home, thread)


def found(home: Path, thread: str = MINE) -> StoredSession:
    stored = FORMAT.find(home, thread)
    assert stored is not None
    return stored


def entries(stored: StoredSession) -> list[Entry]:
    return [entry for record in ARCHIVE.read(stored) for entry in record.entries]


def spoken(stored: StoredSession) -> list[str]:
    return [e.text for e in entries(stored) if e.kind in ("user", "assistant") and not e.inserted]


# --- what the real CLI wrote -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_brief_of_a_talk(version: str) -> None:
    stored = fixture(version, "talk")
    brief = ARCHIVE.brief(stored)
    assert (brief.cwd, brief.version, brief.model) == ("/home/me/project", version, "gpt-5")
    assert (brief.title, brief.title_by, brief.first_prompt) == ("My talk", "user", ONE)
    assert (brief.last_prompt, brief.messages, brief.messages_estimated) == ("third [[say done-3]]", 6, False)
    assert brief.context is not None
    assert brief.tokens is not None
    assert 5_000 < brief.context < brief.tokens
    assert (brief.window, brief.after) == (258_400, 2)
    assert brief.created_ms is not None
    assert brief.last_used_ms is not None
    assert 0 < brief.last_used_ms - brief.created_ms < 60_000
    assert (brief.side, brief.empty, brief.trouble, brief.parent) == (False, False, None, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_entries_of_a_talk(version: str) -> None:
    stored = fixture(version, "talk")
    assert spoken(stored) == [ONE, "done-1", TWO, "done-2", "third [[say done-3]]", "done-3"]
    all_of_it = entries(stored)
    assert [e.text for e in all_of_it if e.kind == "thinking"] == ["hm"]
    call, result = (next(e for e in all_of_it if e.kind == kind) for kind in ("call", "result"))
    assert (call.tool, call.input, call.call) == ("exec_command", {"cmd": "echo tool-ran"}, result.call)
    assert (result.text.endswith("tool-ran\n"), result.failed) == (True, False)
    assert {e.label for e in all_of_it if e.inserted} >= {"project instructions"}
    assert not [e for e in all_of_it if e.kind in ("unknown", "damaged")]
    assert all(e.at_ms for e in all_of_it)
    assert len({e.id for e in all_of_it}) == len(all_of_it)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compaction(version: str) -> None:
    stored = fixture(version, "compacted")
    kinds = [entry.kind for entry in entries(stored)]
    assert kinds.count("boundary") == 1
    assert [text for text in spoken(stored) if text.startswith("done")] == [
        "done-1",
        "done-2",
        "done-3",
        "done-4",
    ]
    assert ARCHIVE.brief(stored).messages == len(spoken(stored)) == 8


@pytest.mark.parametrize("version", VERSIONS)
def test_a_killed_turn_leaves_a_call_open(version: str) -> None:
    stored = fixture(version, "killed")
    assert entries(stored)[-1].kind == "call"
    brief = ARCHIVE.brief(stored)
    assert (brief.messages, brief.last_prompt) == (3, "sleepy [[shell sleep 20]] [[say never]]")
    assert brief.after > 0


def test_a_fork_goes_on_from_another_session() -> None:
    stored = fixture("0.166.0", "fork")
    assert spoken(stored) == [ONE, "done-1", TWO, "done-2", "forked [[say done-3]]", "done-3"]
    records = list(ARCHIVE.read(stored))
    assert records[0].start < 0
    assert list(ARCHIVE.back(stored)) == records[::-1]
    middle = next(n for n, record in enumerate(records) if record.start == 0)
    for at in (middle - 3, middle, middle + 3):
        assert list(ARCHIVE.back(stored, records[at].start)) == records[:at][::-1]
    assert list(ARCHIVE.read(stored, records[middle + 2].start)) == records[middle + 2 :]
    assert list(ARCHIVE.read(stored, records[middle - 2].start)) == records[middle - 2 :]
    parent = ARCHIVE.brief(stored).parent
    assert parent is not None
    assert set(ARCHIVE.files(stored)) == {stored.path, found(stored.home, parent).path}


def test_a_fork_whose_origin_is_gone_says_so(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "codex-0.166.0" / "fork", tmp_path, dirs_exist_ok=True)
    stored = sorted(ARCHIVE.stored(tmp_path), key=lambda one: one.path.name)[-1]
    found(tmp_path, ARCHIVE.brief(stored).parent or "").path.unlink()
    first = entries(stored)[0]
    why = "the earlier history is in a session that no longer exists"
    assert (first.kind, first.text) == ("damaged", why)
    assert spoken(stored) == ["forked [[say done-3]]", "done-3"]
    assert ARCHIVE.files(stored) == (stored.path,)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["talk", "compacted", "killed"])
def test_backwards_is_forwards_reversed(version: str, name: str) -> None:
    stored = fixture(version, name)
    records = list(ARCHIVE.read(stored))
    assert list(ARCHIVE.back(stored)) == records[::-1]
    for at in range(0, len(records), 7):
        assert list(ARCHIVE.back(stored, records[at].start)) == records[:at][::-1]
        assert list(ARCHIVE.read(stored, records[at].start)) == records[at:]


# --- where they lie --------------------------------------------------------------------------------


def test_one_for_each_thread_the_newest_file(tmp_path: Path) -> None:
    put(tmp_path, HEAD, day="2026/01/02")
    newer = put(tmp_path, HEAD, day="2026/01/03")
    own = newer.path.with_name(newer.path.name.replace(f"{MINE}.", f"{MINE}_{OTHER}."))
    own.write_bytes(HEAD)
    assert [one.path for one in ARCHIVE.stored(tmp_path)] == [own]


def test_archived_sessions_and_packed_ones(tmp_path: Path) -> None:
    plain = put(tmp_path, HEAD, message("user", "hi"))
    archive = tmp_path / "archived_sessions"
    archive.mkdir()
    plain.path.rename(archive / plain.path.name)
    packed = put(tmp_path, HEAD, message("user", "a"), message("assistant", "b"), thread=OTHER, suffix=".zst")
    assert {(one.id, one.path.parent.name, one.appends) for one in ARCHIVE.stored(tmp_path)} == {
        (MINE, "archived_sessions", True),
        (OTHER, "02", False),
    }
    assert spoken(packed) == ["a", "b"]
    assert list(ARCHIVE.back(packed)) == list(ARCHIVE.read(packed))[::-1]
    assert (ARCHIVE.brief(packed).messages, ARCHIVE.brief(packed).title) == (2, "a")


def test_what_is_no_session_is_passed_over(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD)
    day = stored.path.parent
    for name in (
        ".hidden",
        "x.lock",
        f".{stored.path.name}.17",
        "rollout-x.jsonl",
        f"{stored.path.name}.tmp",
    ):
        (day / name).write_bytes(HEAD)
    (day / stored.path.name.replace(MINE, OTHER)).mkdir()
    (tmp_path / "sessions" / "note").write_text("x")
    assert [one.id for one in ARCHIVE.stored(tmp_path)] == [MINE]
    assert list(ARCHIVE.stored(tmp_path / "nowhere")) == []
    assert FORMAT.find(tmp_path, "../../x") is None


def test_links_are_followed_and_dead_ones_passed_over(tmp_path: Path) -> None:
    real = put(tmp_path / "real", HEAD, message("user", "hi"))
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "sessions").symlink_to(tmp_path / "real" / "sessions")
    (real.path.parent / real.path.name.replace(MINE, OTHER)).symlink_to(tmp_path / "gone")
    assert [one.id for one in ARCHIVE.stored(linked)] == [MINE]
    assert spoken(found(linked)) == ["hi"]


def test_they_are_found_by_their_names_alone(tmp_path: Path) -> None:
    for number in range(1_000):
        day = tmp_path / "sessions" / "2026" / "01" / f"{number % 28 + 1:02d}"
        day.mkdir(parents=True, exist_ok=True)
        (day / f"rollout-2026-01-02T03-04-05-01a1e24e-5307-79f1-8454-{number:012x}.jsonl").touch()
    assert len(list(ARCHIVE.stored(tmp_path))) == 1_000  # empty as they are


# --- names -----------------------------------------------------------------------------------------


def test_the_last_name_counts(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD, message("user", "hi"))
    assert (ARCHIVE.brief(stored).title, ARCHIVE.brief(stored).title_by) == ("hi", "prompt")
    index = tmp_path / "session_index.jsonl"
    index.write_text(
        f'{{"id":"{MINE}","thread_name":"one"}}\nbroken\n{{"id":"{OTHER}","thread_name":"no"}}\n'
    )
    assert (ARCHIVE.brief(stored).title, ARCHIVE.brief(stored).title_by) == ("one", "user")
    with index.open("a") as file:
        file.write(f'{{"id":"{MINE}","thread_name":"two"}}\n')
    assert ARCHIVE.brief(stored).title == "two"


def test_a_name_in_the_rollout(tmp_path: Path) -> None:
    stored = put(
        tmp_path,
        HEAD,
        message("user", "hi"),
        line("event_msg", type="thread_name_updated", thread_name="named"),
    )
    assert (ARCHIVE.brief(stored).title, ARCHIVE.brief(stored).title_by) == ("named", "user")
    assert [(e.label, e.text) for e in entries(stored) if e.kind == "state"][1:] == [("title", "named")]


def test_a_name_at_the_beginning_of_a_long_rollout(tmp_path: Path) -> None:
    named = line("event_msg", type="thread_name_updated", thread_name="named")
    stored = put(tmp_path, HEAD, message("user", "hi"), named, *[message("assistant", "x" * 999)] * 300)
    assert (ARCHIVE.brief(stored).title, ARCHIVE.brief(stored).title_by) == ("named", "user")


# --- who said it -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n<cwd>/x</cwd>",
        "# AGENTS.md instructions for /x\n\nBe brief",
        "<user_instructions>x</user_instructions>",
        "<turn_aborted>x",
    ],
)
def test_what_codex_put_in_is_no_prompt(tmp_path: Path, text: str) -> None:
    stored = put(
        tmp_path, HEAD, message("developer", "rules"), message("user", text), message("user", "hello")
    )
    assert spoken(stored) == ["hello"]
    brief = ARCHIVE.brief(stored)
    assert (brief.first_prompt, brief.last_prompt, brief.messages) == ("hello", "hello", 1)


def test_a_message_is_what_is_noted_beside_it(tmp_path: Path) -> None:
    """A user may well say what looks like something put in."""

    def noted(text: str, *kinds: str) -> bytes:
        return line(
            "response_item",
            type="message",
            role="user",
            content=[{"type": "input_text", "text": text}],
            internal_chat_message_metadata_passthrough={"content_item_kinds": kinds},
        )

    stored = put(
        tmp_path,
        HEAD,
        noted("hello", "hook.prompt"),
        noted("<environment_context>?", "user.text"),
        noted("x", "unknown"),
    )
    assert spoken(stored) == ["<environment_context>?", "x"]
    assert (ARCHIVE.brief(stored).messages, ARCHIVE.brief(stored).title) == (2, "<environment_context>?")


def test_quotes_in_what_was_said_are_no_records(tmp_path: Path) -> None:
    evil = (
        'x","role":"assistant","payload":{"type":"message","role":"user","content":[]}\n"total_token_usage":{'
    )
    stored = put(tmp_path, HEAD, message("user", evil), message("assistant", evil))
    brief = ARCHIVE.brief(stored)
    assert (brief.messages, brief.first_prompt, brief.tokens) == (2, evil, None)


def test_other_ways_to_write_the_same_are_read(tmp_path: Path) -> None:
    import json

    def spaced(text: bytes) -> bytes:
        return json.dumps(json.loads(text)).encode() + b"\n"

    bare = b'{"type":"message","role":"user","content":[{"type":"input_text","text":"old"}]}\n'
    stored = put(
        tmp_path, spaced(HEAD), spaced(message("user", "hi")), bare, spaced(message("assistant", "ho"))
    )
    assert spoken(stored) == ["hi", "old", "ho"]
    brief = ARCHIVE.brief(stored)
    assert (brief.messages, brief.first_prompt, brief.last_prompt, brief.cwd) == (3, "hi", "old", "/there")


def test_tools_of_all_kinds(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin", "call_id": "1"},
        {
            "type": "custom_tool_call_output",
            "call_id": "1",
            "output": '{"output":"no","metadata":{"exit_code":1}}',
        },
        {"type": "local_shell_call", "action": {"command": ["ls"]}, "call_id": "2"},
        {"type": "function_call_output", "call_id": "2", "output": {"content": "a b", "success": True}},
        {"type": "web_search_call", "id": "ws", "action": {"query": "q"}},
        {"type": "function_call", "name": "view_image", "arguments": "not json", "call_id": "3"},
        {
            "type": "function_call_output",
            "call_id": "3",
            "output": [
                {"type": "input_text", "text": "seen"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            ],
        },
    ]
    stored = put(tmp_path, HEAD, *(line("response_item", **item) for item in items))
    calls = [e for e in entries(stored) if e.kind == "call"]
    results = [e for e in entries(stored) if e.kind == "result"]
    assert [(e.tool, e.input) for e in calls] == [
        ("apply_patch", "*** Begin"),
        ("local_shell", {"command": ["ls"]}),
        ("web_search", {"query": "q"}),
        ("view_image", "not json"),
    ]
    assert [(e.text, e.failed, e.images) for e in results[1:]] == [
        *(("a b", False, ()), ("", False, ()), ("seen", False, (26,))),
    ]
    assert results[0].failed
    assert [e.call for e in calls] == [e.call for e in results]


# --- damage ----------------------------------------------------------------------------------------


def test_unknown_and_damaged_lines(tmp_path: Path) -> None:
    lines = (
        *(line("novelty", a=1), line("event_msg", type="new_event"), line("response_item", type="new_item")),
        *(b'{"timestamp":"x","type":"respo\n', b"garbage\n", b"\0\0\0\n", b"[1]\n", b"\xff\xfe\n", b"\n"),
        b'{"type":5,"payload":[]}\n',
        line("response_item", type="message", role="user", content="not a list"),
        line("session_meta", cwd=7),
    )
    stored = put(tmp_path, HEAD, *lines)
    assert [(e.kind, e.label) for e in entries(stored)[1:]] == [
        *(("unknown", "novelty"), ("unknown", "new_event"), ("unknown", "new_item")),
        *(("damaged", ""),) * 3,
        ("unknown", ""),
        ("damaged", ""),
        *(("unknown", ""), ("unknown", "response_item"), ("unknown", "session_meta")),
    ]
    assert ARCHIVE.brief(stored).empty


def test_a_damaged_line_is_no_prompt(tmp_path: Path) -> None:
    torn = message("user", "torn").replace(b"torn", b"\xff")
    stored = put(tmp_path, HEAD, torn, message("user", "hi"), message("assistant", "ho"), torn)
    brief = ARCHIVE.brief(stored)
    assert (brief.title, brief.first_prompt, brief.last_prompt) == ("hi", "hi", "hi")
    assert brief.messages == len(spoken(stored)) == 2


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    whole = message("user", "hi")
    stored = put(tmp_path, HEAD, whole, message("assistant", "half")[:40])
    records = list(ARCHIVE.read(stored))
    assert spoken(stored) == ["hi"]
    assert records[-1].next == len(HEAD + whole)
    assert ARCHIVE.brief(stored).last_prompt == "hi"
    with stored.path.open("ab") as file:
        file.write(message("assistant", "half")[40:])
    assert [e.text for r in ARCHIVE.read(stored, records[-1].next) for e in r.entries] == ["half"]


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"{}", b"{}\n", b"garbage", b'{"type":"session_meta"}\n', b'{"payload":{"type":"message"'],
)
def test_hardly_a_file(tmp_path: Path, text: bytes) -> None:
    stored = put(tmp_path, text)
    brief = ARCHIVE.brief(stored)
    assert (brief.empty, brief.messages, brief.title) == (True, 0, None)
    assert brief.last_used_ms == stored.changed_ns // 1_000_000
    assert len(list(ARCHIVE.read(stored))) <= 1


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD)
    stored.path.unlink()
    assert "cannot be read" in (ARCHIVE.brief(stored).trouble or "")
    assert [e.kind for e in entries(stored)] == ["damaged"]
    stored.path.mkdir()
    assert [e.kind for r in ARCHIVE.back(stored) for e in r.entries] == ["damaged"]
    assert "cannot be read" in (ARCHIVE.brief(stored).trouble or "")


def test_a_packed_file_that_breaks_off_says_so(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD, message("user", "hi" * 9_000), suffix=".zst")
    stored.path.write_bytes(stored.path.read_bytes()[:-9])
    assert "cannot be read" in (ARCHIVE.brief(stored).trouble or "")
    assert [e.kind for e in entries(stored)] == ["damaged"]


@pytest.mark.parametrize("walk", [ARCHIVE.read, ARCHIVE.back])
def test_a_file_that_shrinks_meanwhile(tmp_path: Path, walk: Callable[[StoredSession], Any]) -> None:
    stored = put(tmp_path, HEAD, *(message("user", f"{n} " + "x" * 9_000) for n in range(200)))
    going = walk(stored)
    next(going)
    os.truncate(stored.path, 30_000)
    rest: list[Record] = list(going)
    assert len(rest) < 200
    assert ARCHIVE.brief(stored).first_prompt is not None


def test_a_huge_line_and_a_huge_file(tmp_path: Path) -> None:
    big = message("user", "x" * 3_000_000)
    stored = put(
        tmp_path,
        HEAD,
        message("user", "first"),
        big,
        *[message("assistant", "a")] * 900,
        message("user", "z"),
    )
    assert spoken(stored)[1] == "x" * 3_000_000
    brief = ARCHIVE.brief(stored)
    assert (brief.first_prompt, brief.last_prompt) == ("first", "z")
    assert brief.messages_estimated
    newest = next(ARCHIVE.back(stored))
    assert [e.text for e in newest.entries] == ["z"]


def test_a_fork_of_itself_comes_to_an_end(tmp_path: Path) -> None:
    head = msgspec.json.decode(HEAD)
    head["payload"]["history_base"] = {"thread_id": MINE, "end_byte_offset": 50}
    stored = put(tmp_path, msgspec.json.encode(head) + b"\n", message("user", "hi"))
    assert spoken(stored) == ["hi"]
    assert len(list(ARCHIVE.back(stored))) == len(list(ARCHIVE.read(stored)))


def test_nothing_expires(tmp_path: Path) -> None:
    stored = put(tmp_path, HEAD)
    assert ARCHIVE.expires_ms(stored, ARCHIVE.brief(stored)) is None
