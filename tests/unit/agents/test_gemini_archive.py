"""Gemini's sessions as they lie on disk: recorded ones of both versions, and made ones of every kind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agents.test_gemini_format import (
    CONTEXT,
    HEADER,
    ID,
    NEW_ID,
    OPENING,
    STAMP,
    TALK,
    TOKENS,
    TOUCH,
    Home,
    asked,
    done,
    gemini,
    lines,
    result,
    user,
    whole,
)

from segue.agents.base import Record, StoredSession
from segue.agents.gemini.adapter import AGENT
from segue.agents.gemini.archive import ARCHIVE
from segue.agents.gemini.format import FORMAT
from segue.core.transcript import Entry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
VERSIONS = ("0.61.0", "0.29.0")
DAY = 86_400_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def only(home: Path) -> StoredSession:
    (found,) = ARCHIVE.stored(home)
    return found


def put(home: Home, *records: dict[str, Any], tail: bytes = b"") -> StoredSession:
    home.put(lines(HEADER, *records) + tail)
    return only(home.path)


def flat(records: Iterable[Record]) -> list[Entry]:
    return [entry for record in records for entry in record.entries]


def said(records: Iterable[Record]) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in flat(records) if one.kind != "state"]


def back(found: StoredSession, end: int | None = None) -> list[Entry]:
    """What a way back shows, in the order it was said."""
    return [one for record in ARCHIVE.back(found, end) for one in reversed(record.entries)][::-1]


def shown(found: StoredSession) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in back(found) if one.kind != "state"]


def recorded(version: str) -> dict[str, StoredSession]:
    """The recorded sessions of a version by their first word."""
    found = {}
    for one in ARCHIVE.stored(FIXTURES / f"gemini-{version}"):
        found[(ARCHIVE.brief(one).first_prompt or "").split()[0]] = one
    return found


class TestRecorded:
    def test_the_adapter_has_it(self) -> None:
        assert AGENT.archive() is ARCHIVE

    @pytest.mark.parametrize(
        ("version", "wanted"),
        [
            ("0.61.0", ["ALPHA!", "KILLED!", "SLEEP!", "look", "refused", "remember"]),
            ("0.29.0", ["KILLED!", "SLEEP!", "refused", "remember"]),
        ],
    )
    def test_all_are_found(self, version: str, wanted: list[str]) -> None:
        found = recorded(version)
        assert sorted(found) == wanted
        for one in found.values():
            assert FORMAT.find(one.home, one.id) == one
            assert (len(one.id), one.size, one.appends) == (36, one.path.stat().st_size, version == "0.61.0")

    @pytest.mark.parametrize(("version", "count", "tokens"), [("0.61.0", 4, 35470), ("0.29.0", 6, 36753)])
    def test_a_dialogue_at_a_glance(self, version: str, count: int, tokens: int) -> None:
        told = ARCHIVE.brief(recorded(version)["remember"])
        assert (told.cwd, told.model, told.trouble) == ("/home/me/project", "gemini-2.5-pro", None)
        assert (told.messages, told.messages_estimated, told.tokens) == (count, False, tokens)
        assert (
            told.first_prompt
            == told.title
            == "remember number 456 [[think let me note it]][[say noted: 456]]"
        )
        assert (told.title_by, (told.last_prompt or "").split()[0]) == (
            "prompt",
            "look" if version == "0.61.0" else "thank",
        )
        assert told.created_ms is not None
        assert told.last_used_ms is not None
        assert 0 < told.last_used_ms - told.created_ms < 60_000
        assert (told.context, told.after) == ((11897, 2) if version == "0.61.0" else (7818, 2))

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_dialogue_as_it_went(self, version: str) -> None:
        found = recorded(version)["remember"]
        kinds = ["user", "thinking", "assistant", "user", "call", "result", "assistant"]
        kinds += [] if version == "0.61.0" else ["user", "assistant"]
        new = [one for one in flat(ARCHIVE.read(found)) if not one.again and not one.inserted]
        assert [one.kind for one in new if one.kind != "state"] == kinds
        assert [one.kind for one in back(found) if one.restored] == kinds
        (call,) = (one for one in new if one.kind == "call")
        (output,) = (one for one in new if one.kind == "result")
        assert (call.tool, call.input["command"]) == ("run_shell_command", "echo tool-2")
        assert (output.call, "tool-2" in output.text, output.failed) == (call.call, True, False)

    def test_a_resume_that_said_everything_again(self) -> None:
        found = recorded("0.61.0")["look"]
        records = list(ARCHIVE.read(found))
        fresh = [one for one in flat(records) if not one.again and one.restored]
        assert [one.text for one in fresh] == [one.text for one in back(found) if one.restored]
        assert sum(one.again for one in flat(records)) == 14
        middle = next(record.start for record in records if any(one.again for one in record.entries))
        later = [one for one in flat(ARCHIVE.read(found, middle)) if not one.again and one.restored]
        assert [one.text for one in later] == [
            one.text for one in fresh if int(one.id.split(".")[0]) >= middle
        ]

    def test_behind_a_summary_is_what_is_no_longer_sent(self) -> None:
        told = back(recorded("0.61.0")["ALPHA!"])
        kinds = [(one.kind, one.restored) for one in told if not one.inserted]
        assert kinds == [
            ("user", False),
            ("assistant", False),
            ("boundary", True),
            ("user", True),
            ("assistant", True),
        ]
        assert "A rehearsal took place" in next(one.text for one in told if one.kind == "boundary")

    def test_a_refused_prompt_was_taken_back_or_stayed(self) -> None:
        newer, older = (recorded(version)["refused"] for version in VERSIONS)
        assert (ARCHIVE.brief(newer).empty, ARCHIVE.brief(newer).messages, back(newer)) == (True, 0, [])
        assert (ARCHIVE.brief(older).empty, ARCHIVE.brief(older).messages) == (False, 1)

    def test_what_a_kill_left(self) -> None:
        assert [one.kind for one in back(recorded("0.61.0")["KILLED!"])][-3:] == ["user", "call", "result"]
        (empty,) = (one for one in back(recorded("0.61.0")["SLEEP!"]) if one.kind == "assistant")
        assert (empty.text, empty.restored, empty.tokens) == ("", False, 11747)
        assert [one.kind for one in back(recorded("0.29.0")["KILLED!"])] == ["user", "call", "result"]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_by_default_only_the_newer_version_cleans_up(self, version: str) -> None:
        found = recorded(version)["remember"]
        told = ARCHIVE.brief(found)
        assert told.last_used_ms is not None
        wanted = told.last_used_ms + 30 * DAY if version == "0.61.0" else None
        assert ARCHIVE.expires_ms(found, told) == wanted

    @pytest.mark.parametrize("version", VERSIONS)
    def test_what_a_copy_needs(self, version: str) -> None:
        found = recorded(version)["remember"]
        assert list(ARCHIVE.files(found)) == [found.path, found.path.parents[1] / ".project_root"]


def test_what_lies_beside_a_session_under_its_id_is_copied_too(home: Home) -> None:
    found, project = put(home, *TALK), home.chats.parent
    names = (f"chats/{ID}/sub.jsonl", f"logs/session-{ID}.jsonl", f"tool-outputs/session-{ID}/out.txt")
    for name in (*names, "tool-outputs/session-other/out.txt"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    wanted = [found.path, project / ".project_root", *(project / name for name in names)]
    assert sorted(ARCHIVE.files(found)) == sorted(wanted)


class TestStored:
    def test_twins_are_one_session_and_other_things_are_none(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        older = home.put(whole(*TALK[:2]), suffix=".json")
        os.utime(older, ns=(0, 0))
        home.put(lines(*OPENING), "2026-01-02T03-05")
        os.link(path, path.with_name(f".kept-{path.name}"))
        (home.chats / "notes.txt").write_text("x")
        (home.chats / "session-2026-01-02T03-04-aaaaaaaa.jsonl").mkdir()
        (home.chats / "session-2026-01-02T03-04-bbbbbbbb.jsonl").symlink_to("nowhere")
        (home.chats / ID).mkdir()
        (home.chats / ID / "sub.jsonl").write_bytes(lines(HEADER | {"kind": "subagent"}, *TALK))
        assert only(home.path).path == path

    def test_ids_that_begin_alike_are_two(self, home: Home) -> None:
        home.put(lines(*OPENING, *TALK))
        home.put(lines(HEADER | {"sessionId": ID[:-1] + "0"}, *TALK), "2026-01-02T03-06")
        assert sorted(one.id for one in ARCHIVE.stored(home.path)) == [ID[:-1] + "0", ID]
        found = FORMAT.find(home.path, ID)
        assert found is not None
        assert found.id == ID

    def test_a_folder_that_an_update_copied_holds_the_same_session(self, home: Home) -> None:
        copied = home.put(whole(*TALK), suffix=".json")
        hashed = home.chats.parent.with_name("0" * 64)
        shutil.copytree(home.chats.parent, hashed)
        os.utime(hashed / "chats" / copied.name, ns=(0, 0))
        assert only(home.path).path == copied

    def test_links_are_followed(self, home: Home, tmp_path: Path) -> None:
        real = home.put(lines(*OPENING, *TALK)).rename(tmp_path / "elsewhere.jsonl")
        link = home.chats / f"session-2026-01-02T03-04-{ID[:8]}.jsonl"
        link.symlink_to(real)
        assert (only(home.path).path, only(home.path).size) == (link, real.stat().st_size)
        assert ARCHIVE.brief(only(home.path)).messages == 4

    def test_one_without_a_beginning_is_known_by_its_name(self, home: Home) -> None:
        home.put(lines(*TALK))
        found = only(home.path)
        assert (found.id, FORMAT.find(home.path, ID)) == (ID[:8], None)
        assert FORMAT.find(home.path, found.id) == found
        assert ARCHIVE.brief(found).trouble == "its beginning is damaged or missing"

    def test_where_there_is_nothing(self, tmp_path: Path) -> None:
        assert list(ARCHIVE.stored(tmp_path)) == []
        for session in ("", "*", "../../x", ID):
            assert FORMAT.find(tmp_path, session) is None
        (tmp_path / ".gemini").mkdir()
        (tmp_path / ".gemini/tmp").write_text("a file")
        assert list(ARCHIVE.stored(tmp_path)) == []

    def test_a_thousand_are_listed_also_once_more(self, home: Home) -> None:
        for number in range(1000):
            key = f"{number:08x}{ID[8:]}"
            home.put(lines(HEADER | {"sessionId": key}, *TALK), key=key)
        first = sorted(stored.id for stored in ARCHIVE.stored(home.path))
        assert len(first) == 1000
        assert sorted(stored.id for stored in ARCHIVE.stored(home.path)) == first


class TestBrief:
    def test_a_title_of_its_own_comes_first(self, home: Home) -> None:
        found = put(home, *TALK, {"$set": {"summary": "A talk"}})
        told = ARCHIVE.brief(found)
        assert (told.title, told.title_by, told.first_prompt) == ("A talk", "agent", "hello")
        home.put(whole(*TALK, summary="Of old"), suffix=".json", key=NEW_ID)
        found.path.unlink()
        assert ARCHIVE.brief(only(home.path)).title == "Of old"

    def test_tools_and_context_are_not_counted_but_tokens_are(self, home: Home) -> None:
        calling = gemini("g3", "", tokens=TOKENS)
        later = gemini("g3", "", toolCalls=[done("c1", result())], tokens=TOKENS, model="m")
        found = put(home, *OPENING[1:], *TALK, calling, TOUCH, later, user("r3", result()), TOUCH)
        told = ARCHIVE.brief(found)
        assert (told.messages, told.tokens, told.context, told.model) == (4, 15, 10, "m")
        assert 5 < told.after < 200

    @pytest.mark.parametrize("suffix", [".jsonl", ".json"])
    def test_of_a_large_file_only_the_ends_are_read(self, home: Home, suffix: str) -> None:
        many = [
            one
            for number in range(600)
            for one in (
                user(f"u{number}", f"question {number} " + "x" * 300),
                gemini(f"g{number}", f"answer {number} " + "y" * 300, tokens=TOKENS | {"input": number + 1}),
            )
        ]
        data = lines(HEADER, *many) if suffix == ".jsonl" else whole(*many, summary="Many")
        path = home.put(data, suffix=suffix)
        with path.open("r+b") as file:
            file.seek(len(data) // 2 - 1000)
            file.write(b"\xff" * 2000)
        told = ARCHIVE.brief(only(home.path))
        assert (told.messages_estimated, told.tokens, told.empty) == (True, None, False)
        assert 1000 < (told.messages or 0) < 1400
        assert ((told.first_prompt or "")[:10], (told.last_prompt or "")[:12]) == (
            "question 0",
            "question 599",
        )
        assert (told.context, told.title_by) == (600, "prompt" if suffix == ".jsonl" else "agent")

    def test_the_last_prompt_within_a_list_of_all_messages(self, home: Home) -> None:
        long = [user(f"u{number}", f"question {number} " + "x" * 900) for number in range(300)]
        found = put(home, user("u", "first"), {"$set": {"messages": [CONTEXT, *long], "lastUpdated": STAMP}})
        told = ARCHIVE.brief(found)
        assert ((told.first_prompt or ""), (told.last_prompt or "")[:12]) == ("first", "question 299")

    def test_lines_that_were_written_otherwise_count_as_well(self, home: Home) -> None:
        spaced = b"".join(json.dumps(record).encode() + b"\n" for record in (HEADER, CONTEXT, *TALK))
        turned = [dict(reversed(record.items())) for record in TALK]
        for data in (spaced, lines(HEADER, CONTEXT, *turned)):
            home.put(data)
            told = ARCHIVE.brief(only(home.path))
            assert (told.messages, told.first_prompt, told.last_prompt) == (4, "hello", "more")

    def test_the_directory_is_never_guessed(self, home: Home) -> None:
        found = put(home, *TALK)
        marker = home.chats.parent / ".project_root"
        assert ARCHIVE.brief(found).cwd == str(home.cwd)
        marker.unlink()
        assert ARCHIVE.brief(found).cwd is None
        registry = home.path / ".gemini/projects.json"
        registry.write_text(json.dumps({"projects": {"/home/me/shop": "project"}}))
        assert ARCHIVE.brief(found).cwd == "/home/me/shop"
        hashed = home.chats.parent.with_name(sha256(b"/home/me/hall").hexdigest())
        home.chats.parent.rename(hashed)
        registry.write_text(json.dumps({"projects": {"/home/me/shop": "project", "/home/me/hall": "hall"}}))
        assert ARCHIVE.brief(only(home.path)).cwd == "/home/me/hall"

    def test_a_subagents_is_none_of_the_users(self, home: Home) -> None:
        home.put(lines(HEADER | {"kind": "subagent"}, *TALK))
        assert ARCHIVE.brief(only(home.path)).side

    def test_what_cannot_be_read_says_why(self, home: Home) -> None:
        found = put(home, *TALK)
        found.path.unlink()
        assert "No such file" in (ARCHIVE.brief(found).trouble or "")
        found.path.mkdir()
        assert "directory" in (ARCHIVE.brief(found).trouble or "")
        assert [one.kind for one in flat(ARCHIVE.read(found))] == ["damaged"]
        assert [one.kind for one in flat(ARCHIVE.back(found))] == ["damaged"]


IMAGE = {"inlineData": {"mimeType": "image/png", "data": "A" * 400}}


class TestEntries:
    CASES: tuple[tuple[str, dict[str, Any], list[tuple[Any, ...]]], ...] = (
        ("a prompt", user("u", "hello", " there"), [("user", "hello there", True, False)]),
        ("text as it is", user("u") | {"content": "hello"}, [("user", "hello", True, False)]),
        ("context", CONTEXT, [("user", CONTEXT["content"][0]["text"], False, True)]),
        ("a command", user("u", "/help"), [("user", "/help", False, False)]),
        ("no words", gemini("g"), [("assistant", "", False, False)]),
        (
            "thoughts",
            gemini("g", "hi", thoughts=[{"subject": "Plan", "description": "look"}]),
            [("thinking", "**Plan** look", True, False), ("assistant", "hi", True, False)],
        ),
        (
            "thoughts among the words",
            gemini("g", [{"text": "hm", "thought": True}, {"text": "hi"}]),
            [("thinking", "hm", True, False), ("assistant", "hi", True, False)],
        ),
        (
            "a call with its result",
            gemini("g", "I look", toolCalls=[done("c1", result("c2"), result())]),
            [
                ("assistant", "I look", True, False),
                ("call", "", True, False),
                ("result", "out-c1", True, False),
            ],
        ),
        ("a call as a part", gemini("g", [asked()]), [("call", "", True, False)]),
        (
            "two results",
            user("r", result("c1"), result("c2")),
            [("result", "out-c1", True, False), ("result", "out-c2", True, False)],
        ),
        ("a note", {"id": "i", "type": "info", "content": "x"}, [("state", "x", False, False)]),
        ("a later kind", {"id": "i", "type": "dance", "content": "x"}, [("unknown", "x", False, False)]),
        ("a later line", {"type": "music", "volume": 3}, [("unknown", "", False, False)]),
        ("a title", {"$set": {"summary": "A talk"}}, [("state", "A talk", True, False)]),
        ("taken back", {"$rewindTo": "u1"}, [("state", "u1", False, False)]),
        ("a moment", TOUCH, []),
        ("a snapshot", user("s", "<state_snapshot>x"), [("boundary", "<state_snapshot>x", True, False)]),
    )

    @pytest.mark.parametrize(("name", "record", "wanted"), CASES, ids=[case[0] for case in CASES])
    def test_what_a_line_holds(
        self, home: Home, name: str, record: dict[str, Any], wanted: list[tuple[Any, ...]]
    ) -> None:
        found = put(home, record)
        told = flat(ARCHIVE.read(found))[1:]
        assert [(one.kind, one.text, one.restored, one.inserted) for one in told] == wanted
        assert len({one.id for one in told}) == len(told)

    def test_failures_images_and_what_ties_them(self, home: Home) -> None:
        error = {"functionResponse": {"id": "c1", "name": "shell", "response": {"error": "no such file"}}}
        bad = gemini("g", toolCalls=[done("c2", result("c2"), IMAGE, status="error")], model="m")
        found = put(home, user("u", "see", IMAGE), user("r", error), bad)
        seen, failed, call, also = flat(ARCHIVE.read(found))[1:]
        assert (seen.images, seen.text, seen.at_ms) == ((400,), "see", 1_767_323_045_678)
        assert (failed.failed, failed.text, failed.call) == (True, "no such file", "c1")
        assert (call.tool, call.input, call.model, call.call) == ("shell", {"command": "c2"}, "m", "c2")
        assert (also.failed, also.images) == (True, (400,))

    def test_odd_text_does_no_harm(self, home: Home) -> None:
        home.put(lines(HEADER) + b'{"id":"u","type":"user","content":"half \\ud83d"}\n')
        assert flat(ARCHIVE.read(only(home.path)))[1].text == "half ?"


class TestWays:
    """Forwards as it was written, backwards as what it amounts to."""

    CALLED = (
        gemini("g3", "I look"),
        TOUCH,
        gemini("g3", "I look", toolCalls=[done("c1", result())]),
        user("r3", result()),
        TOUCH,
    )

    def test_backwards_is_forwards_reversed(self, home: Home) -> None:
        found = put(home, *OPENING[1:], *TALK, *self.CALLED, gemini("g4"), TOUCH, gemini("g4", [asked("c4")]))
        forth = [one for one in flat(ARCHIVE.read(found)) if not one.again]
        assert [one.kind for one in forth][-4:] == ["assistant", "call", "result", "call"]
        assert back(found) == forth
        for record in ARCHIVE.read(found):
            behind = [one for one in forth if int(one.id.split(".")[0]) < record.start]
            assert back(found, record.start)[-3:] == behind[-3:], record.start

    CASES: tuple[tuple[str, list[dict[str, Any]], str], ...] = (
        ("as it was", TALK, "hello hi more done"),
        ("replaced", [*TALK, gemini("g2", "really done")], "hello hi more really done"),
        ("all again", [*TALK, {"$set": {"messages": TALK}}, user("u3", "on")], "hello hi more done on"),
        ("all changed", [*TALK, {"$set": {"messages": TALK[:2]}}], "hello hi"),
        ("taken back", [*TALK, {"$rewindTo": "u2"}, user("u3", "on")], "hello hi on"),
        (
            "taken back from a list",
            [{"$set": {"messages": TALK}}, user("u3", "x"), {"$rewindTo": "u2"}],
            "hello hi",
        ),
        ("taken back to nowhere", [*TALK, {"$rewindTo": "u9"}, user("u3", "on")], "on"),
        ("taken back twice", [*TALK, {"$rewindTo": "u2"}, user("u3", "x"), {"$rewindTo": "u3"}], "hello hi"),
        ("emptied", [*TALK, {"$set": {"messages": []}}, user("u3", "on")], "on"),
        ("taken back to its context", [*TALK, {"$set": {"messages": [CONTEXT]}}, user("u3", "on")], "on"),
        ("opened anew", [*TALK, *OPENING, user("u3", "on")], "hello hi more done on"),
    )

    @pytest.mark.parametrize(("name", "records", "wanted"), CASES, ids=[case[0] for case in CASES])
    def test_what_a_session_amounts_to(
        self, home: Home, name: str, records: list[dict[str, Any]], wanted: str
    ) -> None:
        found = put(home, *records)
        assert " ".join(text for kind, text in shown(found) if not text.startswith("<")) == wanted
        cursor = next((record.start for record in ARCHIVE.back(found)), 0)
        older = [one for one in back(found) if int(one.id.split(".")[0]) < cursor]
        assert back(found, cursor) == older

    def test_pages_by_cursor_are_the_whole(self, home: Home) -> None:
        turns = [
            one
            for n in range(40)
            for one in (user(f"u{n}", f"q{n}"), gemini(f"g{n}", toolCalls=[done(f"c{n}", result(f"c{n}"))]),
                        user(f"r{n}", result(f"c{n}")), TOUCH)
        ]  # fmt: skip
        found = put(home, *turns)
        paged: list[Entry] = []
        end: int | None = None
        for _ in range(100):
            record = next(ARCHIVE.back(found, end), None)
            if record is None:
                break
            paged[:0], end = list(record.entries), record.start
        assert paged == back(found)
        assert [one.kind for one in paged if one.kind != "state"] == ["user", "call", "result"] * 40

    def test_read_goes_on_where_it_was(self, home: Home) -> None:
        found = put(home, *TALK, gemini("g3", "I look"))
        end = list(ARCHIVE.read(found))[-1].next
        with found.path.open("ab") as file:
            file.write(lines(*self.CALLED[2:]))
        assert said(ARCHIVE.read(found, end))[1:] == [
            ("call", ""),
            ("result", "out-c1"),
            ("result", "out-c1"),
        ]
        assert [one.again for one in flat(ARCHIVE.read(found, end))] == [True, False, False, True]

    def test_a_torn_line_is_left_out_until_it_is_whole(self, home: Home) -> None:
        found = put(home, *TALK, tail=b'{"id":"u3","type":"us')
        assert said(ARCHIVE.read(found))[-1] == ("assistant", "done")
        assert next(one.kind for one in flat(ARCHIVE.back(found))) == "damaged"
        assert ARCHIVE.brief(found).messages == 4

    def test_garbage_is_named_and_passed_over(self, home: Home) -> None:
        home.put(lines(HEADER, *TALK[:2]) + b"\xff\xfe{\n[1]\n7\n\n" + b"{" * 5000 + b"\n" + lines(*TALK[2:]))
        kinds = [kind for kind, _ in said(ARCHIVE.read(only(home.path)))]
        assert kinds == [
            *["user", "assistant"],
            *["damaged", "unknown", "unknown", "damaged"],
            "user",
            "assistant",
        ]

    def test_a_line_that_is_too_long_is_not_loaded(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segue.agents.jsonl.LONGEST", 5000)
        found = put(home, *TALK[:2], user("u9", "x" * 300_000), *TALK[2:])
        forth = said(ARCHIVE.read(found))
        assert [kind for kind, _ in forth] == ["user", "assistant", "damaged", "user", "assistant"]
        assert shown(found) == forth

    def test_a_file_that_shrinks_meanwhile(self, home: Home) -> None:
        found = put(home, *(user(f"u{n}", "x" * 1000) for n in range(500)))
        for way in (ARCHIVE.read(found), ARCHIVE.back(found)):
            next(way)
            os.truncate(found.path, 10)
            list(way)
            home.put(lines(HEADER, *(user(f"u{n}", "x" * 1000) for n in range(500))))

    def test_one_object_and_a_torn_one(self, home: Home) -> None:
        home.put(whole(*TALK), suffix=".json")
        found = only(home.path)
        assert (said(ARCHIVE.read(found)), said(ARCHIVE.read(found, 2))) == (shown(found), shown(found)[2:])
        assert [record.start for record in ARCHIVE.back(found, 3)] == [2, 1, 0]
        home.put(whole(*TALK)[:-120], suffix=".json")
        assert [kind for kind, _ in said(ARCHIVE.read(found))] == ["user", "assistant", "user", "damaged"]
        assert ARCHIVE.brief(found).first_prompt == "hello"

    def test_the_newest_page_of_a_large_file_is_right(self, home: Home) -> None:
        path = home.put(lines(HEADER))
        block = lines(*(user(f"u{n}", "x" * 1000) for n in range(1000)))
        with path.open("ab") as file:
            for _ in range(60):
                file.write(block)
            file.write(lines(*TALK))
        way = ARCHIVE.back(only(home.path))
        assert [next(way).entries[0].text for _ in range(3)] == ["done", "more", "hi"]


class TestExpiry:
    CASES: tuple[tuple[dict[str, Any] | str, str, int | None], ...] = (
        ({}, ".jsonl", 30),
        ({}, ".json", None),
        ({"enabled": False}, ".jsonl", None),
        ({"maxAge": "2w"}, ".jsonl", 14),
        ({"maxAge": "36h"}, ".jsonl", 1),
        ({"maxAge": "12h"}, ".jsonl", None),
        ({"maxAge": "soon"}, ".jsonl", None),
        ({"maxAge": "0d"}, ".jsonl", None),
        ({"maxAge": "12h", "minRetention": "1h"}, ".jsonl", 0),
        ({"enabled": True, "maxAge": "1m"}, ".json", 30),
        ({"enabled": True}, ".json", None),
        ({"enabled": True, "maxCount": 1}, ".json", None),
        ({"maxCount": 0}, ".jsonl", None),
        ("not JSON", ".jsonl", 30),
    )

    @pytest.mark.parametrize(("rules", "suffix", "days"), CASES, ids=[str(case[:2]) for case in CASES])
    def test_by_the_settings(
        self, home: Home, rules: dict[str, Any] | str, suffix: str, days: int | None
    ) -> None:
        home.put(lines(HEADER, *TALK) if suffix == ".jsonl" else whole(*TALK), suffix=suffix)
        text = f'{{"general": {{ // a word\n"sessionRetention": {json.dumps(rules)}}}}}'
        (home.path / ".gemini/settings.json").write_text(rules if isinstance(rules, str) else text)
        found = only(home.path)
        told = ARCHIVE.brief(found)
        when = ARCHIVE.expires_ms(found, told)
        assert (None if when is None else (when - (told.last_used_ms or 0)) // DAY) == days

    def test_an_older_session_where_a_newer_version_works(self, home: Home) -> None:
        home.put(whole(*TALK), suffix=".json")
        home.put(lines(HEADER | {"sessionId": NEW_ID}, *TALK), key=NEW_ID)
        assert all(ARCHIVE.expires_ms(one, ARCHIVE.brief(one)) for one in ARCHIVE.stored(home.path))

    def test_only_so_many_are_kept(self, home: Home) -> None:
        (home.path / ".gemini/settings.json").write_text('{"general":{"sessionRetention":{"maxCount":1}}}')
        os.utime(home.put(lines(HEADER, *TALK)), ns=(0, 0))
        home.put(lines(HEADER | {"sessionId": NEW_ID}, *TALK), key=NEW_ID)
        used = ARCHIVE.brief(only_of(home, ID)).last_used_ms
        due = [
            ARCHIVE.expires_ms(one, ARCHIVE.brief(one))
            for one in (only_of(home, key) for key in (ID, NEW_ID))
        ]
        assert due == [used, (used or 0) + 30 * DAY]


def only_of(home: Home, session: str) -> StoredSession:
    found = FORMAT.find(home.path, session)
    assert found is not None
    return found
