"""Broken sessions of Gemini's, repaired into new ones; sessions taken away with all that is theirs."""

from __future__ import annotations

import json
import os
import random
import shutil
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agents.test_gemini_archive import FIXTURES, VERSIONS, only, only_of
from tests.unit.agents.test_gemini_format import (
    CONTEXT,
    HEADER,
    ID,
    IMAGE,
    NEW_ID,
    OPENING,
    TALK,
    Home,
    asked,
    done,
    gemini,
    lines,
    messages_in,
    result,
    user,
    whole,
)

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.gemini.archive import ARCHIVE
from segue.agents.gemini.format import FORMAT
from segue.core.errors import Broken, NotFound
from segue.core.transcript import IMAGE_BYTES
from segue.sessions.check import Seen

SUB = "5ab5ab5a-2222-4333-8444-555555555555"
CLOSED = {
    "functionResponse": {
        "id": "c1",
        "name": "shell",
        "response": {
            "error": "[This call was interrupted before it returned a result. Look before repeating it.]"
        },
    }
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def repair(home: Home, **mending: Any) -> RepairedCopy:
    return ARCHIVE.repair(only_of(home, ID), NEW_ID, RepairOptions(**mending))


def heads(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


class TestLines:
    CASES: tuple[tuple[str, list[dict[str, Any]], list[dict[str, Any]], tuple[str, ...]], ...] = (
        ("nothing wrong", TALK, TALK, ()),
        (
            "a call without a result",
            [gemini("g", [asked()]), user("u", "on")],
            [gemini("g", [asked()]), user("g_response", CLOSED)],
            ("1 call without a result was closed",),
        ),
        (
            "the same, recorded beside the words",
            [gemini("g", "I look", toolCalls=[done()])],
            [gemini("g", [{"text": "I look"}, asked()]), user("g_response", CLOSED)],
            ("1 call without a result was closed",),
        ),
        (
            "one of two",
            [gemini("g", [asked("c1"), asked("c2", marked=False)]), user("r", result("c2"))],
            [gemini("g", [asked("c1"), asked("c2", marked=False)]), user("r", result("c2"), CLOSED)],
            ("1 call without a result was closed",),
        ),
        (
            "results without a call",
            [*TALK, user("r", result()), gemini("g3", "ok"), user("r2", result("c2"), result("c3"))],
            [*TALK, gemini("g3", "ok")],
            ("3 results without a call were left out",),
        ),
        (
            "a result far from its call",
            [gemini("g", [asked()]), user("u", "on"), gemini("g1", "hm"), user("r", result())],
            [gemini("g", [asked()]), user("g_response", CLOSED)],
            ("1 call without a result was closed", "1 result without a call was left out"),
        ),
        (
            "answers without a word",
            [user("u", "x"), gemini("g"), gemini("g1", [{"text": " "}]), gemini("g2", "ok")],
            [user("u", "x"), gemini("g2", "ok")],
            ("2 empty answers were left out",),
        ),
        (
            "written again by resumes",
            [*OPENING[1:], *TALK, {"$set": {"messages": [CONTEXT, *TALK]}}, user("u3", "on")],
            [CONTEXT, *TALK, user("u3", "on")],
            (),
        ),
        ("taken back", [*TALK, {"$rewindTo": "u2"}], TALK[:2], ()),
    )

    @pytest.mark.parametrize(("name", "found", "wanted", "words"), CASES, ids=[case[0] for case in CASES])
    def test_what_becomes_of_a_session(
        self,
        home: Home,
        name: str,
        found: list[dict[str, Any]],
        wanted: list[dict[str, Any]],
        words: tuple[str, ...],
    ) -> None:
        path = home.put(lines(HEADER, *found))
        before = path.read_bytes()
        mended = repair(home)
        new = messages_in(mended.path)
        assert (new[: len(wanted)], mended.done) == (wanted, words)
        assert (path.read_bytes(), mended.path.stat().st_mode & 0o777) == (before, 0o600)
        header = json.loads(mended.path.read_text().splitlines()[0])
        assert (header["sessionId"], header["projectHash"]) == (NEW_ID, "any")
        assert sorted(home.files()) == sorted([path, mended.path])
        again = ARCHIVE.repair(only_of(home, NEW_ID), "77777777" + ID[8:], RepairOptions())
        assert (messages_in(again.path), again.done) == (new, ())

    def test_torn_and_damaged_lines(self, home: Home) -> None:
        home.put(lines(HEADER, *TALK[:2]) + b"\xff[\n" + lines(*TALK[2:]) + b'{"id":"g9","ty')
        mended = repair(home)
        assert messages_in(mended.path) == TALK
        assert mended.done == ("2 damaged records were left out",)

    def test_a_lost_header(self, home: Home) -> None:
        home.put(b'{"sess\n' + lines(*TALK))
        mended = ARCHIVE.repair(only(home.path), NEW_ID, RepairOptions())
        assert (ARCHIVE.brief(only_of(home, NEW_ID)).messages, len(mended.done)) == (4, 1)
        assert '"projectHash":"project"' in mended.path.read_text()

    def test_large_images_and_with_trim_all_of_them_and_the_output(self, home: Home) -> None:
        big = {"inlineData": {"mimeType": "image/png", "data": "A" * 4000}}
        long = {"functionResponse": {"id": "c1", "name": "shell", "response": {"output": "x" * 5000}}}
        talk = [user("u", "see", IMAGE, big), gemini("g", [asked()]), user("r", long), gemini("g2", "ok")]
        home.put(lines(HEADER, *talk))
        mended = repair(home, image_bytes=2000)
        assert messages_in(mended.path)[0]["content"][1:] == [
            IMAGE,
            {"text": "[An image of 4000 bytes was left out.]"},
        ]
        assert mended.done == ("1 image was replaced by a line of text",)
        mended.path.unlink()
        trimmed = repair(home, trim=True)
        assert trimmed.done == (
            "2 images were replaced by a line of text",
            "the output of 1 tool call was left out",
        )
        assert (heads(messages_in(trimmed.path)), trimmed.path.stat().st_size < 1000) == (heads(talk), True)
        assert messages_in(trimmed.path)[1] == talk[1]

    @pytest.mark.parametrize("where", ["said", "alone", "answered", "recorded"])
    @pytest.mark.parametrize("over", [0, 4, 1 << 20, 5 << 18])
    def test_images_are_measured_as_the_check_does(self, home: Home, over: int, where: str) -> None:
        image = {"inlineData": {"mimeType": "image/png", "data": "A" * (IMAGE_BYTES + over)}}
        answer = {"functionResponse": {"id": "c1", "name": "shell", "response": {}, "parts": [image]}}
        talks = {
            "said": [user("u", "see", image), gemini("g", "ok")],
            "alone": [{**user("u"), "content": image}, gemini("g", "ok")],
            "answered": [user("u", "do"), gemini("g", [asked()]), user("r", answer), gemini("g2", "ok")],
            "recorded": [
                user("u", "do"),
                gemini("g", "so", toolCalls=[done("c1", answer)]),
                gemini("g2", "ok"),
            ],
        }
        home.put(lines(HEADER, *talks[where]))
        entries = [entry for record in ARCHIVE.read(only(home.path)) for entry in record.entries]
        assert bool(Seen().look(entries).images) == (over > 0)
        mended = repair(home)
        assert mended.done == (("1 image was replaced by a line of text",) if over else ())
        assert (mended.path.stat().st_size < IMAGE_BYTES) == (over > 0)

    def test_since_an_entry_of_a_line_or_of_a_list(self, home: Home) -> None:
        path = home.put(lines(HEADER, *TALK, user("u3", "on"), gemini("g3", "ok")))
        answer = next(
            entry.id
            for record in ARCHIVE.read(only(home.path))
            for entry in record.entries
            if entry.text == "hi"
        )
        mended = repair(home, since=answer)
        assert heads(messages_in(mended.path)) == ["u2", "g2", "u3", "g3"]
        assert mended.done == ("2 earlier messages were left out",)
        mended.path.unlink()
        path.write_bytes(lines(HEADER, *TALK, {"$set": {"messages": [CONTEXT, *TALK]}}, user("u3", "on")))
        places = [entry.id for record in ARCHIVE.back(only(home.path)) for entry in record.entries]
        assert places[:5] == [places[0], *(f"{places[1].split('.')[0]}.{n}" for n in range(4))]
        mended = repair(home, since=places[4])
        assert heads(messages_in(mended.path)) == ["u2", "g2", "u3"]

    @pytest.mark.parametrize("since", ["", "x.y", "999999.0", "0.0", "3.0"])
    def test_since_nowhere(self, home: Home, since: str) -> None:
        home.put(lines(HEADER, *TALK))
        with pytest.raises((Broken, NotFound)):
            repair(home, since=since)
        assert len(home.files()) == 1

    @pytest.mark.parametrize("data", [lines(HEADER), lines(*OPENING), lines(HEADER, gemini("g")), b"\xff\n"])
    def test_where_nothing_can_be_saved(self, home: Home, data: bytes) -> None:
        home.put(data)
        with pytest.raises((Broken, NotFound)):
            ARCHIVE.repair(only(home.path), NEW_ID, RepairOptions())
        assert len(list(home.chats.iterdir())) == 1

    def test_an_id_that_is_taken(self, home: Home) -> None:
        home.put(lines(HEADER, *TALK))
        with pytest.raises(Broken, match="another id"):
            ARCHIVE.repair(only(home.path), ID[:8] + NEW_ID[8:], RepairOptions())

    def test_a_large_file_is_never_held_whole(self, home: Home) -> None:
        path = home.put(lines(HEADER))
        turn = [gemini("g", [asked()]), user("r", result(), "x" * 20_000)]
        with path.open("ab") as file:
            for number in range(1000):
                own = [one | {"id": f"{one['id']}{number}"} for one in (user("u", "on"), *turn)]
                file.write(lines(*own))
        tracemalloc.start()
        mended = repair(home)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (path.stat().st_size > 20_000_000, mended.path.stat().st_size > 20_000_000) == (True, True)
        assert peak < 8_000_000 + 4 * 4 * 1024 * 1024


class TestObject:
    def test_calls_answers_and_what_came_before(self, home: Home) -> None:
        home.put(whole(*TALK, gemini("g"), gemini("g3", "I look", toolCalls=[done()])), suffix=".json")
        mended = repair(home, since="2.0")
        told = messages_in(mended.path)
        assert heads(told) == ["u2", "g2", "g3"]
        assert told[2]["toolCalls"][0]["result"] == [CLOSED]
        assert mended.done == (
            "1 call without a result was closed",
            "1 empty answer was left out",
            "2 earlier messages were left out",
        )
        assert only_of(home, NEW_ID).path.suffix == ".json"

    def test_a_file_that_was_cut_off(self, home: Home) -> None:
        home.put(whole(*TALK)[:-100], suffix=".json")
        mended = repair(home)
        assert (heads(messages_in(mended.path)), len(mended.done)) == (["u1", "g1", "u2"], 1)

    def test_trimmed(self, home: Home) -> None:
        long = {"functionResponse": {"id": "c1", "name": "shell", "response": {"output": "x" * 5000}}}
        home.put(
            whole(*TALK, gemini("g", toolCalls=[done("c1", long, resultDisplay="x" * 900)])), suffix=".json"
        )
        mended = repair(home, trim=True)
        assert "xxx" not in mended.path.read_text()
        assert mended.done == ("the output of 1 tool call was left out",)


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_sessions_come_through(version: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(FIXTURES / f"gemini-{version}", home)
    for number, old in enumerate(list(ARCHIVE.stored(home))):
        before = ARCHIVE.brief(old)
        if before.empty:
            continue
        mended = ARCHIVE.repair(old, f"{number:08d}{ID[8:]}", RepairOptions())
        new = FORMAT.find(home, mended.session)
        assert new is not None
        after = ARCHIVE.brief(new)
        assert (after.last_prompt, after.cwd) == (before.last_prompt, before.cwd)
        # a summary that a rehearsed model made looks like a prompt once it is a line of its own
        extra = "ALPHA!" in (before.first_prompt or "")
        assert after.messages == (before.messages or 0) + extra


def test_no_damage_makes_anything_fail_otherwise_than_by_saying_so(home: Home) -> None:
    chance = random.Random(7)
    talk = [*TALK, gemini("g3", [asked()]), user("r3", result()), {"$rewindTo": "g3"}, gemini("g4", "seen")]
    data = lines(*OPENING, *talk)
    for _ in range(150):
        at, other = sorted(chance.sample(range(len(data)), 2))
        home.put(data[:at] + chance.choice([b"", b"{", b'"\n{', b"\xff", b"null"]) + data[other - 5 :])
        for old in list(ARCHIVE.stored(home.path)):
            with suppress(Broken):
                ARCHIVE.repair(old, NEW_ID, RepairOptions(trim=True)).path.unlink()
            assert len(list(home.chats.iterdir())) == 1


class TestRemove:
    def remove(self, home: Home) -> StoredSession:
        found = only_of(home, ID)
        ARCHIVE.remove(found)
        return found

    def test_everything_of_it_goes_and_nothing_else(self, home: Home) -> None:
        path, project = home.put(lines(*OPENING, *TALK)), home.chats.parent
        home.put(whole(*TALK), suffix=".json")
        home.put(lines(*OPENING), "2026-01-02T03-05")
        os.link(path, path.with_name(f".kept-{path.name}"))
        path.with_name(f"{path.name}.unreadable-17").write_bytes(lines(HEADER))
        other = home.put(lines(HEADER | {"sessionId": ID[:-1] + "0"}, *TALK), "2026-01-02T03-06")
        theirs = (
            "tool-outputs/session-{}/out.txt",
            "logs/session-{}.jsonl",
            "{}/plans/plan.md",
            f"chats/{{}}/{SUB}.jsonl",
        )
        for key in (ID, "another"):
            for name in theirs:
                file = project / name.format(key)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("x")
        (project / f"tool-outputs/session-{SUB}").mkdir()
        (home.path / ".gemini/projects.json").write_text("{}")
        self.remove(home)
        left = {
            str(file.relative_to(home.path / ".gemini")) for file in home.path.rglob("*") if file.is_file()
        }
        mine = {f"tmp/project/{name.format('another')}" for name in theirs}
        assert left == {
            "projects.json",
            "tmp/project/.project_root",
            f"tmp/project/chats/{other.name}",
            *mine,
        }
        assert [one.id for one in ARCHIVE.stored(home.path)] == [ID[:-1] + "0"]
        assert not (project / f"tool-outputs/session-{SUB}").exists()

    def test_the_list_of_prompts_keeps_those_of_others_to_the_byte(self, home: Home) -> None:
        home.put(lines(*OPENING, *TALK))
        log = [{"sessionId": key, "type": "user", "message": f'{{"ü [{key}'} for key in ("a", ID, "b", ID)]
        logs = home.chats.parent / "logs.json"
        logs.write_text(json.dumps(log, indent=2, ensure_ascii=False))
        self.remove(home)
        assert logs.read_text() == json.dumps([log[0], log[2]], indent=2, ensure_ascii=False)

    @pytest.mark.parametrize("text", ["", "{", "[1, 2", '[{"sessionId": "a"}]', "7"])
    def test_a_list_that_is_not_its_own_stays(self, home: Home, text: str) -> None:
        home.put(lines(*OPENING, *TALK))
        logs = home.chats.parent / "logs.json"
        logs.write_text(text)
        before = logs.stat().st_mtime_ns
        self.remove(home)
        assert (logs.read_text(), logs.stat().st_mtime_ns) == (text, before)

    def test_what_a_link_leads_to_stays(self, home: Home, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "mine.txt").write_text("x")
        real = home.put(lines(*OPENING, *TALK)).rename(outside / "session.jsonl")
        (home.chats / f"session-2026-01-02T03-04-{ID[:8]}.jsonl").symlink_to(real)
        (home.chats / ID).symlink_to(outside)
        self.remove(home)
        assert sorted(file.name for file in outside.iterdir()) == ["mine.txt", "session.jsonl"]
        assert list(home.chats.iterdir()) == []

    def test_a_folder_outside_the_home_is_not_touched(self, home: Home, tmp_path: Path) -> None:
        home.put(lines(*OPENING, *TALK))
        away = home.chats.rename(tmp_path / "away")
        home.chats.symlink_to(away)
        self.remove(home)
        assert len(list(away.iterdir())) == 1

    def test_what_is_gone_already_is_no_trouble(self, home: Home) -> None:
        home.put(lines(*OPENING, *TALK))
        ARCHIVE.remove(self.remove(home))
        assert list(ARCHIVE.stored(home.path)) == []

    @pytest.mark.parametrize("stem", [".", "..", "chats", "another", "5ab5ab5"])
    def test_a_name_that_is_no_id_leads_nowhere(self, home: Home, stem: str) -> None:
        home.put(lines(*OPENING, *TALK))
        project = home.chats.parent
        for folder in ("another", "5ab5ab5", "tool-outputs"):
            (project / folder).mkdir()
            (project / folder / "mine.txt").write_text("x")
        inner = home.chats / ID
        inner.mkdir()
        (inner / f"{stem}.jsonl").write_text("x")
        beside = home.chats / f"session-2026-01-02T03-06-{NEW_ID[:8]}.jsonl"
        beside.write_bytes(lines(HEADER | {"sessionId": NEW_ID}, *TALK))
        self.remove(home)
        assert beside.exists()
        assert len(list(project.rglob("mine.txt"))) == 3
        assert not inner.exists()

    def test_what_is_a_session_of_its_own_is_no_subagent(self, home: Home) -> None:
        home.put(lines(*OPENING, *TALK))
        path = home.chats / f"session-2026-01-02T03-06-{NEW_ID[:8]}.jsonl"
        path.write_bytes(lines(HEADER | {"sessionId": NEW_ID}, *TALK))
        (home.chats / ID).mkdir()
        (home.chats / ID / f"{NEW_ID}.jsonl").write_text("x")
        plans = home.chats.parent / NEW_ID
        plans.mkdir()
        self.remove(home)
        assert (path.exists(), plans.exists()) == (True, True)

    def test_no_link_on_the_way_is_followed(self, home: Home, tmp_path: Path) -> None:
        home.put(lines(*OPENING, *TALK))
        away = tmp_path / "away"
        away.mkdir()
        log = away / f"session-{ID}.jsonl"
        log.write_text("x")
        (home.chats.parent / "logs").symlink_to(away)
        self.remove(home)
        assert log.exists()
