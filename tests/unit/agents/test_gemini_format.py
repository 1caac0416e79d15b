"""Gemini's session files, made by hand: what is read of them, and what is written."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from segue.agents.base import CutRequest, StoredSession
from segue.agents.gemini.format import FORMAT
from segue.agents.gemini.forms import as_lines, as_object
from segue.agents.gemini.verdict import evidence
from segue.core.request import Capabilities, Request, RunPlace, Runtime, Start
from segue.core.stream import TurnState
from segue.core.view import UNREADABLE


def facts(stored: StoredSession | None) -> tuple[Path, int, str | None]:
    assert stored is not None
    return stored.path, stored.size, FORMAT.end(stored)


ID = "11111111-2222-4333-8444-555555555555"
NEW_ID = "99999999-2222-4333-8444-555555555555"
STAMP = "2026-01-02T03:04:05.678Z"
HEADER = {"sessionId": ID, "projectHash": "any", "startTime": STAMP, "lastUpdated": STAMP, "kind": "main"}
Record = dict[str, Any]


def runtime(version: str | None, choose_id: bool = False) -> Runtime:
    can = Capabilities(resume=True, choose_id=choose_id)
    return Runtime(agent="gemini", distribution="g", command=("g",), version=version, capabilities=can)


NEW, OLD = runtime("0.61.0", True), runtime("0.29.0")


def user(key: str, *parts: Record | str, **more: Any) -> Record:
    content = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"id": key, "timestamp": STAMP, "type": "user", "content": content, **more}


def gemini(key: str, content: Any = "", **more: Any) -> Record:
    return {"id": key, "timestamp": STAMP, "type": "gemini", "content": content, **more}


def call(key: str = "c1") -> Record:
    return {"id": key, "name": "shell", "args": {"command": key}}


def result(key: str = "c1") -> Record:
    return {"functionResponse": {"id": key, "name": "shell", "response": {"output": f"out-{key}"}}}


def done(key: str = "c1", *results: Record, **more: Any) -> Record:
    """A call as Gemini records it beside the words."""
    return call(key) | {"status": "success", "timestamp": STAMP, "result": list(results)} | more


def asked(key: str = "c1", *, marked: bool = True) -> Record:
    """A call as a part."""
    mark = {"thoughtSignature": "skip_thought_signature_validator"} if marked else {}
    return {"functionCall": call(key)} | mark


CONTEXT = user("context", "<session_context>\nToday is Friday.\n</session_context>")
OPENING: list[Record] = [HEADER, {"$set": {"messages": [CONTEXT]}}]
TOUCH = {"$set": {"lastUpdated": STAMP}}
TALK = [user("u1", "hello"), gemini("g1", "hi"), user("u2", "more"), gemini("g2", "done")]
TOKENS = {"input": 10, "cached": 1, "total": 15}


def lines(*records: Record) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def whole(*messages: Record, **header: Any) -> bytes:
    return json.dumps(HEADER | header | {"messages": messages}, indent=2).encode()


class Home:
    """A home with one project, and the project's directory."""

    def __init__(self, path: Path) -> None:
        self.path, self.cwd = path / "home", path / "cwd"
        self.cwd.mkdir()
        self.chats = self.path / ".gemini/tmp/project/chats"
        self.chats.mkdir(parents=True)
        (self.chats.parent / ".project_root").write_text(str(self.cwd))

    def put(
        self, data: bytes, minute: str = "2026-01-02T03-04", suffix: str = ".jsonl", key: str = ID
    ) -> Path:
        path = self.chats / f"session-{minute}-{key[:8]}{suffix}"
        path.write_bytes(data)
        return path

    def look(self, key: str = ID) -> StoredSession | None:
        return FORMAT.find(self.path, key, self.cwd)

    def found(self) -> StoredSession:
        found = self.look()
        assert found is not None
        return found

    def stored(self, path: Path) -> StoredSession:
        return StoredSession(id=ID, home=self.path, file=str(path), size=0, changed_ns=0)

    def cut(self, anchor: str, program: Runtime = NEW, new_id: str = NEW_ID) -> Start | None:
        request = Request(prompt="x", cwd=self.cwd)
        return FORMAT.cut(
            self.found(),
            CutRequest(anchor=anchor, new_id=new_id, home=self.path, request=request, runtime=program),
        )

    def copy(self, suffix: str = ".jsonl") -> Path:
        (path,) = self.chats.glob(f"session-*-{NEW_ID[:8]}{suffix}")
        return path

    def files(self) -> list[Path]:
        """The files that Gemini looks at."""
        return sorted(path for path in self.chats.iterdir() if not path.name.startswith("."))

    def mend(self, program: Runtime = NEW) -> None:
        FORMAT.make_resumable(self.found(), program)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def messages_in(path: Path) -> list[Record]:
    if path.suffix == ".json":
        return list(json.loads(path.read_text())["messages"])
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


class TestLook:
    ENDS: tuple[tuple[str, bytes, str | None], ...] = (
        ("the last message", lines(*OPENING, *TALK, TOUCH), "g2"),
        ("a prompt without an answer", lines(*OPENING, *TALK, user("u3", "x"), TOUCH), "u3"),
        ("a torn last line", lines(*OPENING, *TALK, TOUCH) + b'{"id":"g3","type":"gem', "g2"),
        ("a garbage line", lines(*OPENING, *TALK) + b"\xff\xfe nonsense [\n", "g2"),
        ("a last line without its break", lines(*OPENING, *TALK)[:-1], "g2"),
        ("all repeated by a resume", lines(*OPENING, *TALK, *OPENING, {"$set": {"messages": TALK}}), "g2"),
        ("opened by a resume, then killed", lines(*OPENING, *TALK, *OPENING), "g2"),
        ("a prompt taken back", lines(*OPENING, *TALK, user("u3", "x"), {"$set": {"messages": TALK}}), "g2"),
        ("all taken back", lines(*OPENING, user("u1", "x"), {"$set": {"messages": [CONTEXT]}}), None),
        ("rewound by hand", lines(*OPENING, *TALK, {"$rewindTo": "u2"}), "g1"),
        ("rewound to nowhere", lines(*OPENING, *TALK, {"$rewindTo": "u9"}), None),
        (
            "a note that is never sent",
            lines(*OPENING, *TALK, {"id": "i", "type": "info", "content": "x"}),
            "g2",
        ),
        (
            "a call that has not ended",
            lines(*OPENING, *TALK, user("u3", "x"), gemini("g3", tokens=TOKENS)),
            "u3",
        ),
        ("a call that has", lines(*OPENING, *TALK, gemini("g3"), gemini("g3", toolCalls=[done()])), "g3"),
        ("results repeated", lines(*OPENING, gemini("g3", [asked()]), user("g3_response", result())), "g3"),
        ("an id too long for an anchor", lines(*OPENING, user("u" * 201, "x")), None),
        ("nothing", b"", None),
        ("no header", lines(*TALK), None),
        ("only a header", lines(HEADER), None),
        ("other things", b'[1]\n"x"\nnull\n{"id":7}\n{"$set":3}\n' + lines(HEADER), None),
    )

    @pytest.mark.parametrize(("name", "data", "end"), ENDS, ids=[name for name, _, _ in ENDS])
    def test_where_a_session_ends(self, home: Home, name: str, data: bytes, end: str | None) -> None:
        path = home.put(data)
        assert facts(home.look()) == (path, len(data), end)

    def test_the_older_form(self, home: Home) -> None:
        home.put(whole(*TALK), suffix=".json")
        assert FORMAT.end(home.found()) == "g2"
        home.put(whole(*TALK)[:-20], suffix=".json")
        assert FORMAT.end(home.found()) is None

    def test_where_there_is_nothing(self, home: Home) -> None:
        assert home.look() is None
        assert home.look("*") is None
        assert FORMAT.find(home.path / "gone", ID, home.cwd) is None

    def test_a_session_belongs_to_its_directory(self, home: Home, tmp_path: Path) -> None:
        home.put(lines(*OPENING, *TALK))
        link = tmp_path / "link"
        link.symlink_to(home.cwd)
        assert FORMAT.find(home.path, ID, link) == home.found()
        assert FORMAT.find(home.path, ID, tmp_path) is None

    def test_a_folder_named_by_the_hash_of_its_directory(self, home: Home) -> None:
        project = home.chats.parent
        (project / ".project_root").unlink()
        home.put(lines(*OPENING, *TALK))
        assert home.look() is None
        project.rename(project.with_name(sha256(os.path.realpath(home.cwd).encode()).hexdigest()))
        assert FORMAT.end(home.found()) == "g2"

    def test_empty_twins_and_others_of_the_same_eight_characters_are_not_it(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.put(lines(*OPENING), "2026-01-02T03-05")
        home.put(lines(HEADER | {"sessionId": ID[:-1] + "0"}, *TALK, user("u9", "x")), "2026-01-02T03-06")
        home.put(b"", "2026-01-02T03-07")
        home.put(lines(*OPENING, user("u9", "x")), "2026-01-02T03-08", ".jsonl.unreadable-1")
        assert (home.found().path, FORMAT.end(home.found())) == (path, "g2")

    def test_of_two_forms_the_one_written_last_is_the_session(self, home: Home) -> None:
        older = home.put(whole(*TALK), suffix=".json")
        newer = home.put(lines(*OPENING, *TALK, user("u3", "x")))
        os.utime(older, ns=(0, 1))
        assert home.found().path == newer
        os.utime(newer, ns=(0, 0))
        assert home.found().path == older

    @pytest.mark.parametrize("suffix", [".jsonl", ".json"])
    def test_of_a_huge_file_only_the_end_is_read(self, home: Home, suffix: str) -> None:
        filler = [user(f"f{number}", "x" * 1_000_000) for number in range(60)]
        data = lines(*OPENING, *filler, *TALK) if suffix == ".jsonl" else whole(*filler, *TALK)
        home.put(data, suffix=suffix)
        tracemalloc.start()
        try:
            assert FORMAT.end(home.found()) == "g2"
            assert tracemalloc.get_traced_memory()[1] < 16_000_000
        finally:
            tracemalloc.stop()


class TestCut:
    def test_the_copy_has_what_was_before_and_nothing_else(self, home: Home) -> None:
        data = lines(*OPENING, {"$set": {"summary": "later"}}, *TALK)
        path = home.put(data)
        assert home.cut("g1") == Start("resume", NEW_ID)
        header, *messages = map(json.loads, home.copy().read_text().splitlines())
        assert (messages, header["sessionId"]) == ([CONTEXT, *TALK[:2]], NEW_ID)
        assert (header["projectHash"], "summary" in header) == ("any", False)
        assert header["startTime"] == header["lastUpdated"] > STAMP
        assert home.copy().stat().st_mode & 0o777 == 0o600
        assert (path.read_bytes(), len(home.files())) == (data, 2)

    def test_the_older_version_gets_its_own_form(self, home: Home) -> None:
        home.put(whole(*TALK), suffix=".json")
        assert home.cut("g1", OLD) == Start("resume", NEW_ID)
        copy = home.copy(".json")
        assert json.loads(copy.read_text())["sessionId"] == NEW_ID
        assert messages_in(copy) == TALK[:2]
        assert facts(FORMAT.find(home.path, NEW_ID, home.cwd)) == (copy, copy.stat().st_size, "g1")

    def test_it_can_be_cut_again_and_an_anchor_of_before_still_holds(self, home: Home) -> None:
        home.put(lines(*OPENING, *TALK))
        home.cut("g2")
        again = "88888888" + NEW_ID[8:]
        copy = FORMAT.find(home.path, NEW_ID, home.cwd)
        assert copy is not None
        request = Request(prompt="x", cwd=home.cwd)
        assert FORMAT.cut(
            copy, CutRequest(anchor="g1", new_id=again, home=home.path, request=request, runtime=NEW)
        ) == Start("resume", again)
        found = FORMAT.find(home.path, again, home.cwd)
        assert found is not None
        assert FORMAT.end(found) == "g1"

    def test_an_anchor_from_before_a_summary_is_found_where_it_stood(self, home: Home) -> None:
        summary = [user("s", "what was said"), gemini("sg", "I see"), *TALK[2:]]
        home.put(lines(*OPENING, *TALK, {"$set": {"messages": summary}}, user("u3", "x")))
        home.mend()
        assert home.cut("g1") is not None
        assert messages_in(home.copy()) == [CONTEXT, *TALK[:2]]
        home.copy().unlink()
        assert home.cut("g2") is not None
        assert messages_in(home.copy()) == summary

    def test_a_call_is_not_parted_from_its_result(self, home: Home) -> None:
        spoken = gemini("g3", "I look", toolCalls=[done("c1", result())])
        home.put(lines(*OPENING, *TALK, spoken, user("r3", result()), gemini("g4", "seen")))
        assert home.cut("g3") is not None
        assert messages_in(home.copy())[-2:] == [
            gemini("g3", [{"text": "I look"}, asked()]),
            user("r3", result()),
        ]

    def test_half_a_character_of_tool_output_survives(self, home: Home) -> None:
        home.put(lines(*OPENING, user("u1", "\ud83d cut"), gemini("g1", "ok"), gemini("g2", "no")))
        assert home.cut("g1") is not None
        assert messages_in(home.copy())[1]["content"] == [{"text": "\ud83d cut"}]

    def test_what_cannot_be_cut(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        assert home.cut("nowhere") is None
        assert home.cut("g1", new_id=ID) is None  # the names of both would end alike
        found = home.found()
        for damaged in (b"", lines(*TALK), b"\0" * 100, b"{" * 100_000, whole(*TALK)[:-20]):
            path.write_bytes(damaged)
            request = Request(prompt="x", cwd=home.cwd)
            assert (
                FORMAT.cut(
                    found,
                    CutRequest(anchor="g1", new_id=NEW_ID, home=home.path, request=request, runtime=NEW),
                )
                is None
            )
        path.unlink()
        assert (
            FORMAT.cut(
                found,
                CutRequest(
                    anchor="g1",
                    new_id=NEW_ID,
                    home=home.path,
                    request=Request(prompt="x", cwd=home.cwd),
                    runtime=NEW,
                ),
            )
            is None
        )
        assert home.files() == []


class TestContinues:
    CASES = (
        ("a turn behind it", lines(*OPENING, *TALK), "g1", True),
        ("nothing behind it", lines(*OPENING, *TALK), "g2", False),
        ("no such anchor", lines(*OPENING, *TALK), "g9", False),
        (
            "only results behind it",
            lines(*OPENING, gemini("g1", [asked()]), user("r", result())),
            "g1",
            False,
        ),
        ("a garbage line between", lines(*OPENING, *TALK[:2]) + b"{{\n" + lines(*TALK[2:]), "g1", True),
        ("an empty file", b"", "g1", False),
    )

    @pytest.mark.parametrize(("name", "data", "anchor", "does"), CASES, ids=[case[0] for case in CASES])
    def test_whether_a_turn_came_after_the_anchor(
        self, home: Home, name: str, data: bytes, anchor: str, does: bool
    ) -> None:
        found = home.stored(home.put(data))
        assert FORMAT.continues(found, anchor) is does

    def test_without_a_file_it_does_not(self, home: Home) -> None:
        assert FORMAT.continues(home.stored(home.chats / "gone.jsonl"), "g1") is False


SPOKEN = gemini("g3", "I look", toolCalls=[done("c1", result())], tokens=TOKENS, thoughts=[], model="m")
ECHOED = gemini("g3", [{"text": "I look"}, asked(marked=False)], toolCalls=[done("c1", result(), result())])
LOOKED = gemini("g3", [{"text": "I look"}, asked()])
INTERRUPTED = "[The previous response was interrupted before it completed.]"
NO_RESULT = {
    "functionResponse": {
        "id": "c1",
        "name": "shell",
        "response": {"error": "The result of this call was not recorded."},
    }
}
COMMAND = {"text": "", "thought": True}
HIDDEN = {"text": "/etc", "thought": False}
NOTE = {"id": "i", "type": "info", "content": "x"}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}


class TestLines:
    """Each call and each result once, as parts, in the order they came."""

    CASES: tuple[tuple[str, list[Record], list[Record]], ...] = (
        ("no calls: as it was", TALK, TALK),
        (
            "recorded beside the words and as an answer",
            [SPOKEN, user("r3", result())],
            [LOOKED | {"tokens": TOKENS, "thoughts": [], "model": "m"}, user("r3", result())],
        ),
        (
            "repeated by a resume",
            [ECHOED, user("g3_response", result(), result()), user("r3", result())],
            [LOOKED, user("r3", result())],
        ),
        (
            "repeated within a message",
            [ECHOED, user("r3", result(), result())],
            [LOOKED, user("r3", result())],
        ),
        (
            "two at once, each with the results of both",
            [
                gemini("g", toolCalls=[done(key, result("c1"), result("c2")) for key in ("c1", "c2")]),
                user("g_response", result("c1"), result("c2"), result("c1"), result("c2")),
            ],
            [
                gemini("g", [asked("c1"), asked("c2", marked=False)]),
                user("g_response", result("c1"), result("c2")),
            ],
        ),
        (
            "killed before the result was an answer",
            [gemini("g", toolCalls=[done("c1", result("c2"), result())]), user("u", "go on")],
            [
                gemini("g", [asked()]),
                user("g_response", result()),
                gemini("g_response_interrupted", [{"text": INTERRUPTED}]),
                user("u", "go on"),
            ],
        ),
        (
            "killed before there was a result",
            [gemini("g", toolCalls=[done()])],
            [gemini("g", [asked()]), user("g_response", NO_RESULT)],
        ),
        (
            "a result that is only text",
            [gemini("g", toolCalls=[done() | {"result": "out-c1"}])],
            [gemini("g", [asked()]), user("g_response", result())],
        ),
        (
            "an image beside a result",
            [ECHOED, user("g3_response", result(), IMAGE), user("r3", result(), IMAGE)],
            [LOOKED, user("r3", result(), IMAGE)],
        ),
        (
            "signed by the model",
            [gemini("g", [asked() | {"thoughtSignature": "mine"}]), user("r", result())],
            [gemini("g", [asked() | {"thoughtSignature": "mine"}]), user("r", result())],
        ),
        (
            "words like a command",
            [user("u", " /etc is full"), user("v", "?")],
            [user("u", COMMAND, " /etc is full"), user("v", COMMAND, "?")],
        ),
        ("a note in between", [NOTE], [NOTE]),
    )

    @pytest.mark.parametrize(("name", "found", "wanted"), CASES, ids=[case[0] for case in CASES])
    def test_what_becomes_of_messages(self, name: str, found: list[Record], wanted: list[Record]) -> None:
        assert as_lines(found) == wanted
        assert as_lines(wanted) == wanted


class TestObject:
    """The older form, of its own kind and of lines."""

    KEPT = gemini("g", "I look", toolCalls=[done("c1", result())])
    OWN = (user("u1", "hello"), KEPT, gemini("g1", "hi"))
    CASES: tuple[tuple[str, list[Record], list[Record]], ...] = (
        ("its own", [*OWN], [*OWN]),
        ("no context", [CONTEXT, *TALK], TALK),
        ("as lines are written", [KEPT, user("r", result())], [KEPT]),
        ("mended lines", [gemini("g", [{"text": "I look"}, asked()]), user("r", result())], [KEPT]),
        (
            "no thoughts",
            [gemini("g", [{"text": "hm", "thought": True}, {"text": "hi"}])],
            [gemini("g", "hi")],
        ),
        ("words like a command", [user("u", "/etc")], [user("u", HIDDEN)]),
        ("the same from lines", [user("u", COMMAND, "/etc")], [user("u", HIDDEN)]),
    )

    @pytest.mark.parametrize(("name", "found", "wanted"), CASES, ids=[case[0] for case in CASES])
    def test_what_becomes_of_messages(self, name: str, found: list[Record], wanted: list[Record]) -> None:
        assert as_object(found) == wanted
        assert as_object(wanted) == wanted


class TestMend:
    @pytest.mark.parametrize(
        ("data", "suffix", "program"),
        [(lines(*OPENING, *TALK, TOUCH), ".jsonl", NEW), (whole(*TALK), ".json", OLD)],
        ids=["new", "old"],
    )
    def test_a_file_with_nothing_to_mend_is_left_alone(
        self, home: Home, data: bytes, suffix: str, program: Runtime
    ) -> None:
        path = home.put(data, suffix=suffix)
        before = path.stat()
        home.mend(program)
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_calls_are_put_right_once(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK, SPOKEN, user("r3", result()), gemini("g4", "seen")))
        home.mend()
        mended = path.read_bytes()
        assert messages_in(path) == [
            CONTEXT,
            *as_lines([*TALK, SPOKEN, user("r3", result()), gemini("g4", "seen")]),
        ]
        assert (FORMAT.end(home.found()), path.stat().st_mode & 0o777) == ("g4", 0o600)
        home.mend()
        assert (path.read_bytes(), home.files()) == (mended, [path])

    def test_a_file_that_says_everything_again_and_again_shrinks(self, home: Home) -> None:
        again = {"$set": {"messages": [CONTEXT, *TALK], "summary": "a talk"}}
        path = home.put(lines(*OPENING, *TALK, *[again] * 5))
        home.mend()
        assert path.read_bytes() == lines(HEADER | {"summary": "a talk"}, CONTEXT, *TALK)

    @pytest.mark.parametrize("tail", [b'{"id":"g3","ty', b"\xff", lines(*OPENING)])
    def test_what_a_kill_left_half_written_is_taken_off(self, home: Home, tail: bytes) -> None:
        path = home.put(lines(*OPENING, *TALK) + tail)
        home.mend()
        assert path.read_bytes() == lines(HEADER, CONTEXT, *TALK)

    def test_an_update_takes_a_session_over_and_going_back_too(self, home: Home) -> None:
        spoken = gemini("g3", "I look", toolCalls=[done("c1", result())])
        older = home.put(whole(*TALK, spoken), suffix=".json")
        home.mend(NEW)
        newer = older.with_suffix(".jsonl")
        assert (home.files(), FORMAT.end(home.found())) == ([newer], "g3")
        assert messages_in(newer) == as_lines([*TALK, spoken])
        home.mend(OLD)
        assert (home.files(), FORMAT.end(home.found())) == ([older], "g3")
        assert messages_in(older) == [*TALK, spoken]

    @pytest.mark.parametrize(
        ("program", "suffix"),
        [
            (runtime("0.39.0"), ".jsonl"),
            (runtime("0.38.2"), ".json"),
            (runtime(None, True), ".jsonl"),
            (runtime(None), ".jsonl"),
        ],
    )
    def test_the_form_is_that_of_the_version(self, home: Home, program: Runtime, suffix: str) -> None:
        home.put(lines(*OPENING, *TALK))
        home.mend(program)
        assert home.found().path.suffix == suffix

    def test_twins_that_would_be_its_end_are_removed(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.put(lines(*OPENING), "2026-01-02T03-05")
        stale = home.put(whole(*TALK[:2]), suffix=".json")
        os.utime(stale, ns=(0, 0))
        other = home.put(lines(HEADER | {"sessionId": ID[:-1] + "0"}, *TALK), "2026-01-02T03-06")
        home.mend()
        assert home.files() == [path, other]

    @pytest.mark.parametrize("data", [b"", lines(*TALK), lines(HEADER), lines(*OPENING), b"{" * 100_000])
    def test_what_lacks_its_beginning_is_not_made_a_session(self, home: Home, data: bytes) -> None:
        path = home.put(data)
        home.mend()
        FORMAT.make_resumable(home.stored(home.chats / "gone.jsonl"), NEW)
        assert (path.read_bytes(), home.files()) == (data, [path])


class TestKeeping:
    """Another start may delete a session's file while a run goes on in it."""

    REST = lines(user("u3", "on"), TOUCH, gemini("g3", "ok"), TOUCH)

    def settle(self, home: Home) -> None:
        request = Request(prompt="x", cwd=home.cwd, start=Start("resume", ID))
        evidence(request, RunPlace(home.path, started_ms=2**45), home.path, TurnState())

    @pytest.mark.parametrize("settled", [True, False])
    def test_what_was_deleted_in_mid_run_is_made_whole(self, home: Home, settled: bool) -> None:
        """After the run, or when somebody looks again because there was no after."""
        path = home.put(lines(*OPENING, *TALK))
        home.mend()
        with path.open("ab") as file:
            file.write(lines(user("x", "said before")))
        path.unlink()
        path.write_bytes(self.REST)
        if settled:
            self.settle(home)
        assert FORMAT.end(home.found()) == "g3"
        assert path.read_bytes() == lines(*OPENING, *TALK, user("x", "said before")) + self.REST
        assert list(home.chats.iterdir()) == [path]

    def test_also_where_the_run_wrote_no_more(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.mend()
        path.unlink()
        assert FORMAT.end(home.found()) == "g2"

    def test_a_cut_copy_is_kept_too(self, home: Home) -> None:
        home.put(lines(*OPENING, *TALK))
        home.cut("g1")
        home.copy().unlink()
        assert home.look(NEW_ID) is not None

    def test_nothing_of_it_stays_after_a_run(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.mend()
        assert (len(list(home.chats.iterdir())), FORMAT.end(home.found())) == (2, "g2")
        assert len(list(home.chats.iterdir())) == 2
        self.settle(home)
        assert (list(home.chats.iterdir()), path.read_bytes()) == ([path], lines(*OPENING, *TALK))

    def test_a_session_that_has_a_file_under_another_name_gets_no_second_one(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.mend()
        moved = path.rename(path.with_name(f"session-2026-01-01T00-00-{ID[:8]}.jsonl"))
        assert (home.found().path, home.files()) == (moved, [moved])
        self.settle(home)
        assert list(home.chats.iterdir()) == [moved]

    def test_a_twin_that_is_left_alone_is_not_the_session(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.mend()
        path.unlink()
        home.put(lines(*OPENING), "2026-01-02T03-05")
        assert (home.found().path, FORMAT.end(home.found())) == (path, "g2")

    def test_a_session_that_went_back_to_the_older_form_does_not_rise_again(self, home: Home) -> None:
        path = home.put(lines(*OPENING, *TALK))
        home.mend(NEW)
        home.mend(OLD)
        assert home.found().path == path.with_suffix(".json")
        assert list(home.chats.iterdir()) == [path.with_suffix(".json")]


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_no_damage_makes_anything_fail(home: Home, suffix: str) -> None:
    messages = [*TALK, ECHOED, user("r3", result()), gemini("g4", "seen")]
    data = lines(*OPENING, *messages) if suffix == ".jsonl" else whole(*messages)
    damages: list[Callable[[int], bytes]] = [
        lambda at: data[:at],
        lambda at: data[at:],
        lambda at: data[:at] + b'"\n{' + data[at:],
        lambda at: data[:at] + b"[]" + data[at + 2 :],
    ]
    for at in range(0, len(data), 37):
        for damage in damages:
            path = home.put(damage(at), suffix=suffix)
            found = home.look()
            for program in (NEW, OLD) if found is not None else ():
                assert home.cut("g1", program) in (None, Start("resume", NEW_ID))
                FORMAT.continues(home.found(), "g1")
                home.mend(program)
            for file in (path, *home.chats.iterdir()):
                file.unlink(missing_ok=True)


WEIRD: tuple[Any, ...] = (
    None,
    7,
    "x",
    [],
    {},
    [None],
    [7],
    [{}],
    [[]],
    {"functionCall": 3},
    [{"functionResponse": 3}],
)


@pytest.mark.parametrize("value", WEIRD, ids=repr)
def test_no_field_of_another_type_makes_anything_fail(home: Home, value: Any) -> None:
    for key in ("content", "toolCalls", "type", "thoughts", "timestamp"):
        odd = gemini("g3", [asked()], toolCalls=[done("c1", result())]) | {key: value}
        heard = user("r3", result()) | {key: value}
        inner = gemini("g5", toolCalls=[done() | dict.fromkeys(("id", "name", "args", "result"), value)])
        home.put(lines(*OPENING, *TALK, odd, heard, inner))
        for program in (OLD, NEW):
            home.mend(program)
            assert home.cut("g1", program) is not None
            (copy,) = home.chats.glob(f"session-*-{NEW_ID[:8]}*")
            copy.unlink()


class TestLogin:
    def accounts(self, home: Path, text: str) -> Path:
        file = home / ".gemini/google_accounts.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def test_a_fingerprint_of_the_active_account(self, tmp_path: Path) -> None:
        self.accounts(tmp_path, '{"active": "me@example.com", "old": []}')
        mine = FORMAT.login(tmp_path, {})
        assert mine == sha256(b"me@example.com").hexdigest()[:16]
        self.accounts(tmp_path, '{"active": "me@example.com", "old": ["you@example.com"]}')
        assert FORMAT.login(tmp_path, {}) == mine
        self.accounts(tmp_path, '{"active": "you@example.com", "old": ["me@example.com"]}')
        assert FORMAT.login(tmp_path, {}) not in (mine, None)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"active": null}', '{"active": 7}', "{}"])
    def test_nobody_or_nothing_to_read(self, tmp_path: Path, text: str) -> None:
        assert FORMAT.login(tmp_path, {}) is None
        self.accounts(tmp_path, text)
        assert FORMAT.login(tmp_path, {}) == (UNREADABLE if text in ("", "{") else None)

    def test_a_file_in_mid_rewrite_gets_a_second_look(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.accounts(tmp_path, '{"act')
        monkeypatch.setattr(time, "sleep", lambda _: self.accounts(tmp_path, '{"active": "me@example.com"}'))
        assert FORMAT.login(tmp_path, {}) == sha256(b"me@example.com").hexdigest()[:16]
