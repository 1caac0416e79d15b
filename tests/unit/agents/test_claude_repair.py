"""Repaired and removed Claude sessions: what is written, what is said about it, what stays as it was."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.claude.archive import ARCHIVE
from segue.agents.claude.format import FORMAT
from segue.core.errors import Broken, NotFound
from segue.core.transcript import Entry

RECORDED = Path(__file__).parents[2] / "fixtures" / "sessions"
HOMES = [RECORDED / "claude-2.1.325", RECORDED / "claude-2.1.50"]
ID, NEW_ID = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"


class Story:
    """Records that follow each other, one second apart."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.parent: str | None = None

    def add(self, kind: str, content: Any, **more: Any) -> Story:
        own = f"m{len(self.lines)}"
        record = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "sessionId": ID,
            "cwd": "/x",
            "type": kind,
            "message": {"role": kind, "content": content},
            "uuid": own,
            "timestamp": f"2026-01-02T03:{len(self.lines) // 60:02}:{len(self.lines) % 60:02}.000Z",
            **more,
        }
        self.parent = own
        return self.raw(msgspec.json.encode(record))

    def raw(self, line: bytes) -> Story:
        self.lines.append(line + b"\n")
        return self

    def user(self, text: str) -> Story:
        return self.add("user", [{"type": "text", "text": text}])

    def says(self, text: str) -> Story:
        return self.add("assistant", [{"type": "text", "text": text}])

    def calls(self, *keys: str) -> Story:
        blocks = [{"type": "tool_use", "id": key, "name": "Bash", "input": {}} for key in keys]
        return self.add("assistant", blocks)

    def returns(self, key: str, output: Any = "done") -> Story:
        block = {"type": "tool_result", "tool_use_id": key, "content": output}
        return self.add("user", [block], toolUseResult={"stdout": str(output)})

    def write(self, home: Path) -> StoredSession:
        path = home / "projects" / "-x" / f"{ID}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(self.lines))
        return stored(home, ID)


def stored(home: Path, session: str) -> StoredSession:
    found = FORMAT.find(home, session)
    assert found is not None
    return found


def repaired(of: StoredSession, **mending: Any) -> tuple[RepairedCopy, list[Entry]]:
    before = of.path.read_bytes()
    mended = ARCHIVE.repair(of, NEW_ID, RepairOptions(**mending))
    assert of.path.read_bytes() == before
    assert (mended.session, mended.path) == (NEW_ID, of.path.with_name(f"{NEW_ID}.jsonl"))
    assert mended.path.stat().st_mode & 0o777 == 0o600
    assert [path for path in of.path.parent.iterdir() if path.name.startswith(".")] == []
    found = [entry for record in ARCHIVE.read(stored(of.home, NEW_ID)) for entry in record.entries]
    chained(found)
    return mended, found


def chained(entries: list[Entry]) -> None:
    """Every parent came before, every call has one result behind it, and nothing else has one."""
    seen: set[str] = set()
    calls: list[str] = []
    for entry in entries:
        assert entry.kind != "damaged"
        assert entry.parent is None or entry.parent in seen
        if entry.native:
            seen.add(entry.native)
        if entry.kind == "call":
            calls.append(entry.call)
        elif entry.kind == "result":
            calls.remove(entry.call)
        elif entry.kind in ("user", "assistant") and not entry.side:
            assert calls == []
    assert calls == []


def words(entries: list[Entry]) -> list[str]:
    return [entry.text or entry.call for entry in entries if entry.kind != "state"]


@pytest.mark.parametrize("broken", [b"\xff", b"\\ud83d"])
def test_text_that_is_no_text_is_left_out(tmp_path: Path, broken: bytes) -> None:
    story = Story().user("one").says("HERE").says("two")
    story.lines[1] = story.lines[1].replace(b"HERE", broken)
    mended, entries = repaired(story.write(tmp_path))
    assert words(entries) == ["one", "two"]
    assert mended.done[0] == "1 damaged record was left out"


def test_a_whole_session_is_copied_under_its_new_id(tmp_path: Path) -> None:
    story = Story().user("hello").calls("t1").returns("t1").says("bye")
    mended, entries = repaired(story.write(tmp_path))
    assert (mended.done, words(entries)) == ((), ["hello", "t1", "done", "bye"])
    lines = [msgspec.json.decode(line) for line in mended.path.read_bytes().splitlines()]
    assert {line["sessionId"] for line in lines} == {NEW_ID}
    assert [line["uuid"] for line in lines] == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name)
def test_every_recorded_session_can_be_repaired(tmp_path: Path, home: Path) -> None:
    shutil.copytree(home, tmp_path / "home")
    for of in list(ARCHIVE.stored(tmp_path / "home")):
        said = [
            (entry.kind, entry.text, entry.native)
            for record in ARCHIVE.read(of)
            for entry in record.entries
            if entry.kind in ("user", "assistant", "boundary")
        ]
        _, entries = repaired(of)
        assert said == [
            (e.kind, e.text, e.native) for e in entries if e.kind in ("user", "assistant", "boundary")
        ]


def test_damaged_lines_are_left_out_and_what_followed_them_is_tied_anew(tmp_path: Path) -> None:
    story = Story().user("hello").says("LOST").user("again").says("bye").raw(b'{"type":"user","uu')
    story.lines[1] = story.lines[1][:-30] + b"\n"
    mended, entries = repaired(story.write(tmp_path))
    assert words(entries) == ["hello", "again", "bye"]
    assert [entry.parent for entry in entries] == [None, "m0", "m2"]
    assert mended.done == ("2 damaged records were left out", "1 broken link between records was repaired")


def test_calls_without_a_result_are_closed_behind_their_answer(tmp_path: Path) -> None:
    story = Story().user("hello").calls("t1", "t2").returns("t2").user("and?").says("bye").calls("t3")
    mended, entries = repaired(story.write(tmp_path))
    assert mended.done == ("2 calls without a result were closed",)
    kinds = [(entry.kind, entry.call) for entry in entries]
    assert kinds[1:5] == [("call", "t1"), ("call", "t2"), ("result", "t1"), ("result", "t2")]
    assert kinds[-1] == ("result", "t3")
    closed = [entry for entry in entries if entry.kind == "result" and entry.failed]
    assert all("interrupted" in entry.text for entry in closed)
    times = [entry.at_ms or 0 for entry in entries]
    assert times == sorted(times)


def test_an_answer_in_several_records_is_closed_behind_the_last(tmp_path: Path) -> None:
    story = Story().user("hello")
    for key in ("t1", "t2"):
        block: dict[str, Any] = {"type": "tool_use", "id": key, "name": "Bash", "input": {}}
        story.add("assistant", [block], message={"id": "one", "role": "assistant", "content": [block]})
    story.returns("t2").says("bye")
    _, entries = repaired(story.write(tmp_path))
    assert [(entry.kind, entry.call) for entry in entries[1:5]] == [
        ("call", "t1"),
        ("call", "t2"),
        ("result", "t1"),
        ("result", "t2"),
    ]


def test_results_without_a_call_empty_answers_and_what_is_there_twice_are_left_out(tmp_path: Path) -> None:
    story = Story().user("hello").returns("nowhere").add("assistant", []).says(" ").says("bye").user("more")
    story.raw(story.lines[0].rstrip())
    mended, entries = repaired(story.write(tmp_path))
    assert words(entries) == ["hello", "bye", "more"]
    assert [entry.parent for entry in entries] == [None, "m0", "m4"]
    assert mended.done == (
        "1 duplicate record was left out",
        "1 result without a call was left out",
        "2 empty answers were left out",
    )


def test_records_without_ids_parents_or_times_get_them(tmp_path: Path) -> None:
    story = Story()
    for kind, text in (("user", "hello"), ("assistant", "bye")):
        story.raw(msgspec.json.encode({"type": kind, "message": {"role": kind, "content": text}}))
    _, entries = repaired(story.write(tmp_path))
    assert words(entries) == ["hello", "bye"]
    assert entries[1].parent == entries[0].native
    assert None not in [entry.at_ms for entry in entries]


def test_only_images_that_are_too_large_are_replaced(tmp_path: Path) -> None:
    small, large = ({"type": "image", "source": {"data": "A" * size}} for size in (10, 2000))
    story = Story().add("user", [small, large]).calls("t1").returns("t1", [large]).says("bye")
    mended, entries = repaired(story.write(tmp_path), image_bytes=1000)
    assert [entry.images for entry in entries if entry.images] == [(10,)]
    assert entries[2].text == "[An image of 2000 bytes was left out.]"
    assert mended.done == ("2 images were replaced by a line of text",)
    assert b"A" * 2000 not in mended.path.read_bytes()


def test_trimmed_it_has_the_dialogue_and_the_calls_but_no_output(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"data": "A" * 2000}}
    story = Story().add("user", [{"type": "text", "text": "look"}, image])
    story.calls("t1").returns("t1", "OUTPUT" * 500).calls("t2").returns("t2", "ok").says("bye")
    mended, entries = repaired(story.write(tmp_path), trim=True)
    assert words(entries) == [
        "look\n[An image of 2000 bytes was left out.]",
        "t1",
        "[The output of this tool call, 3000 bytes, was left out.]",
        "t2",
        "ok",
        "bye",
    ]
    assert mended.path.stat().st_size < 2500
    assert "the output of 1 tool call was left out" in mended.done


def test_from_a_place_on_it_begins_with_the_next_prompt_and_keeps_the_title(tmp_path: Path) -> None:
    story = Story().user("one").raw(b'{"type":"custom-title","customTitle":"Mine"}').calls("t1").returns("t1")
    of = story.says("two").user("three").says("four").write(tmp_path)
    place = next(entry.id for record in ARCHIVE.read(of) for entry in record.entries if entry.kind == "call")
    mended, entries = repaired(of, since=place)
    assert words(entries) == ["three", "four"]
    assert entries[1].parent is None
    assert ARCHIVE.brief(stored(tmp_path, NEW_ID)).title == "Mine"
    assert mended.done == ("4 earlier records were left out",)


def test_a_compaction_stays_a_beginning(tmp_path: Path) -> None:
    story = Story().user("one").says("two")
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    story.raw(msgspec.json.encode(boundary)).user("three")
    _, entries = repaired(story.write(tmp_path))
    assert [entry.parent for entry in entries if entry.native == "b"] == [None]


@pytest.mark.parametrize("since", [None, "999999.0", "nonsense"])
def test_where_nothing_was_said_nothing_is_written(tmp_path: Path, since: str | None) -> None:
    story = Story().raw(b"torn").raw(b'{"type":"mode","mode":"normal"}')
    of = (story if since is None else story.user("hello")).write(tmp_path)
    with pytest.raises((Broken, NotFound)):
        ARCHIVE.repair(of, NEW_ID, RepairOptions(since=since))
    assert [path.name for path in of.path.parent.iterdir()] == [of.path.name]


def test_a_long_session_is_not_held_in_memory(tmp_path: Path) -> None:
    story = Story().user("hello").calls(*(f"t{n}" for n in range(60)))
    for n in range(60):
        story.returns(f"t{n}", "x" * 500_000)
    of = story.write(tmp_path)
    tracemalloc.start()
    ARCHIVE.repair(of, NEW_ID, RepairOptions(trim=True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert of.size > 50_000_000
    assert peak < 25_000_000


# --- removing --------------------------------------------------------------------------------------


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("recorded", HOMES, ids=lambda home: home.name)
def test_a_removed_session_takes_with_it_what_is_its_own_and_nothing_else(
    tmp_path: Path, recorded: Path
) -> None:
    home = tmp_path / "home"
    shutil.copytree(recorded, home)
    (agent,) = home.glob("projects/*/*/subagents/*.jsonl")
    session = agent.parent.parent.name
    for folder in ("file-history", "tasks", "session-env"):
        (home / folder / session).mkdir(parents=True)
        (home / folder / session / "1").write_text("x")
    (home / "debug").mkdir()
    (home / "debug" / f"{session}.txt").write_text("x")
    rest = {name: data for name, data in contents(home).items() if session not in name}
    assert len(rest) < len(contents(home))
    ARCHIVE.remove(stored(home, session))
    assert contents(home) == rest
    assert FORMAT.find(home, session) is None
    assert not any(session in str(path) for path in home.rglob("*"))


def test_the_lists_of_the_cli_lose_its_entries_alone(tmp_path: Path) -> None:
    of = Story().user("hello").write(tmp_path)
    history = tmp_path / "history.jsonl"
    mine = f'{{"display":"a","sessionId":"{ID}"}}\n'
    others = [
        '{"display":"b",  "sessionId":"other"}\n',
        f'{{"display":"{ID}","sessionId":"other"}}\n',
        "torn",
    ]
    history.write_text(others[0] + mine + "".join(others[1:]))
    index = of.path.parent / "sessions-index.json"
    entry = '{\n  "sessionId": "%s"\n}'
    index.write_text(f'{{"version": 1, "entries": [{entry % "other"}, {entry % ID}, {entry % "third"}]}}')
    ARCHIVE.remove(of)
    assert history.read_text() == "".join(others)
    assert index.read_text() == f'{{"version": 1, "entries": [{entry % "other"}, {entry % "third"}]}}'
    ARCHIVE.remove(of)


@pytest.mark.parametrize("at", [0, 1])
def test_the_first_and_the_last_entry_of_the_index_can_go(tmp_path: Path, at: int) -> None:
    of = Story().user("hello").write(tmp_path)
    index = of.path.parent / "sessions-index.json"
    entries = [{"sessionId": "other"}]
    entries.insert(at, {"sessionId": ID})
    index.write_bytes(msgspec.json.encode({"entries": entries}))
    ARCHIVE.remove(of)
    assert msgspec.json.decode(index.read_bytes()) == {"entries": [{"sessionId": "other"}]}


def test_links_are_deleted_and_not_followed(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    of = Story().user("hello").write(home)
    for name in (ID, "todos", "tasks"):
        (outside / name).mkdir(parents=True)
    (outside / ID / "kept").write_text("x")
    (outside / "todos" / f"{ID}-agent-1.json").write_text("x")
    (outside / "tasks" / ID).mkdir()
    (outside / "real.jsonl").write_bytes(of.path.read_bytes())
    of.path.unlink()
    of.path.symlink_to(outside / "real.jsonl")
    (of.path.parent / ID).symlink_to(outside / ID)
    (home / "todos").symlink_to(outside / "todos")
    (home / "tasks").symlink_to(outside / "tasks")
    before = contents(outside)
    ARCHIVE.remove(stored(home, ID))
    assert (contents(outside), (outside / "tasks" / ID).is_dir()) == (before, True)
    assert list(of.path.parent.iterdir()) == []


def test_a_folder_outside_of_the_home_is_not_touched(tmp_path: Path) -> None:
    of = Story().user("hello").write(tmp_path / "outside")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "projects").symlink_to(tmp_path / "outside" / "projects")
    with pytest.raises(Broken, match=r"is not deleted: .* leads outside .* through a link"):
        ARCHIVE.remove(stored(tmp_path / "home", ID))
    assert of.path.exists()
