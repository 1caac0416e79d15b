"""The search index over sessions that grow, change and go; and what a search makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import Record, StoredSession
from segue.core.transcript import Entry
from segue.sessions.search.index import Index, locked, open_index
from segue.sessions.search.search import Hit, Wanted, search
from segue.sessions.search.update import Updated, update, updated
from tests.unit.sessions.made import MadeReader, made_home, write

DAY_MS = 24 * 3_600_000
NOW_MS = 1_790_000_000_000


class Counting(MadeReader):
    """Notes from where each session was read."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, int]] = []

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        self.reads.append((stored.id, start))
        return super().read(stored, start)


class Rewriting(MadeReader):
    """Sessions that are written anew as a whole."""

    def stored(self, home: Path) -> Iterator[StoredSession]:
        for each in super().stored(home):
            yield msgspec.structs.replace(each, appends=False)


class Scene:
    def __init__(self, tmp_path: Path, reader: MadeReader | None = None) -> None:
        self.home = tmp_path / "home"
        self.home.mkdir()
        self.reader = reader or Counting()
        self.places = [made_home(self.home, self.reader, account="mine")]
        self.index: Index = open_index(tmp_path / "segue" / "index.db")

    def update(self) -> Updated:
        return update(self.index, self.places)

    def find(self, text: str, **more: Any) -> list[Hit]:
        return search(self.index, self.places, Wanted(text=text, **more), NOW_MS)

    def texts(self, text: str, **more: Any) -> list[str]:
        return sorted(hit.snippet for hit in self.find(text, **more))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.index.close()


def user(text: str, **more: object) -> dict[str, object]:
    return {"kind": "user", "text": text, "at_ms": NOW_MS - DAY_MS, **more}


def append(path: Path, *lines: object) -> None:
    with path.open("ab") as file:
        file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def test_a_match_says_where_it_stands(scene: Scene) -> None:
    path = write(scene.home, "s1", user("hello"), [user("nothing"), user("the needle here")])
    assert scene.update().sessions == 1
    (hit,) = scene.find("needle")
    start = path.read_bytes().index(b"\n") + 1
    assert (hit.agent, hit.account, hit.session, hit.path) == ("made", "mine", "s1", str(path))
    assert (hit.place, hit.kind, hit.at) == (f"{start}.1", "user", NOW_MS - DAY_MS)
    assert [hit.snippet[a:b] for a, b in hit.highlights] == ["needle"]


def test_what_is_searched_and_what_is_not(scene: Scene) -> None:
    write(
        scene.home,
        "s1",
        user("by a user: needle"),
        {"kind": "assistant", "text": "by an assistant: needle"},
        {"kind": "thinking", "text": "in thought: needle"},
        {"kind": "boundary", "text": "in a summary: needle"},
        {"kind": "state", "label": "title", "text": "in a title: needle"},
        {"kind": "call", "tool": "Bash", "input": {"command": ["grep", {"for": "needle"}], "n": 77}},
        {"kind": "result", "text": "put out: needle"},
        {"kind": "state", "label": "git snapshot", "text": "unsearched needle"},
        {"kind": "damaged", "text": "unsearched needle"},
        user("unsearched needle", inserted=True),
    )
    scene.update()
    assert len(scene.find("needle", where="text")) == 3, "of one session only the best few are shown"
    assert {hit.kind for hit in scene.find("needle", where="tool")} == {"call", "result"}
    assert scene.texts("unsearched") == []
    for words in ("user", "assistant", "thought", "summary", "title", "put out"):
        assert len(scene.find(f"{words} needle")) == 1
    assert [hit.kind for hit in scene.find("bash grep 77")] == ["call"]


def test_phrases_beginnings_and_parts_of_names(scene: Scene) -> None:
    write(scene.home, "s1", user("parse_url in foo.py"), user("url parse"), user("parser of ürl"))
    scene.update()
    assert scene.texts('"parse url"') == ["parse_url in foo.py"]
    assert scene.texts("parse_url") == ["parse_url in foo.py"]
    assert scene.texts("url parse") == ["parse_url in foo.py", "url parse"]
    assert scene.texts("foo.py") == ["parse_url in foo.py"]
    assert scene.texts("pars*") == ["parse_url in foo.py", "parser of ürl", "url parse"]
    assert scene.texts("parser url") == ["parser of ürl"]


def test_only_new_bytes_of_a_grown_session_are_read(scene: Scene) -> None:
    path = write(scene.home, "s1", user("first needle"))
    write(scene.home, "s2", user("another"))
    scene.update()
    size = path.stat().st_size
    reader = scene.reader
    assert isinstance(reader, Counting)
    reader.reads.clear()
    assert scene.update() == Updated()
    assert reader.reads == []
    append(path, user("second needle"))
    assert scene.update().bytes == path.stat().st_size - size
    assert reader.reads == [("s1", size)]
    assert scene.texts("needle") == ["first needle", "second needle"]


def test_a_half_written_line_is_indexed_once_it_is_whole(scene: Scene) -> None:
    path = write(scene.home, "s1", user("first needle"))
    line = msgspec.json.encode(user("second needle")) + b"\n"
    with path.open("ab") as file:
        file.write(line[:20])
    scene.update()
    assert scene.texts("needle") == ["first needle"]
    with path.open("ab") as file:
        file.write(line[20:])
    scene.update()
    assert scene.texts("needle") == ["first needle", "second needle"]


def rewritten_and_grown(path: Path) -> None:
    write(path.parent, path.stem, user("quite another text of it"), user("more"), user("still more"))


def shrunk(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10] + b"\n")


def same_size(path: Path) -> None:
    changed = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().replace(b"needle", b"noodle"))
    os.utime(path, ns=(changed + 1, changed + 1))


def replaced(path: Path) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(path.read_bytes().replace(b"needle", b"noodle") + b"\n" * 50)
    beside.replace(path)


def deleted(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [rewritten_and_grown, same_size, replaced, deleted])
def test_what_was_changed_or_deleted_is_not_found_any_more(scene: Scene, change: Any) -> None:
    path = write(scene.home, "s1", user("the needle " + "x " * 2_000))
    write(scene.home, "s2", user("other words " * 2_000))
    scene.update()
    change(path)
    assert scene.texts("needle") == [], "a row that lies is passed over even before the index knows"
    scene.update()
    assert scene.texts("needle") == []
    rows = scene.index.connection.execute("SELECT count(*) FROM rows").fetchone()[0]
    fresh = open_index(scene.index.path.with_name("fresh.db"))
    update(fresh, scene.places)
    assert rows == fresh.connection.execute("SELECT count(*) FROM rows").fetchone()[0]
    fresh.close()


def test_a_row_that_lies_has_its_file_read_anew(scene: Scene) -> None:
    """Nothing the file system says gives the change away; the search itself notices."""
    path = write(scene.home, "s1", user("the needle"), user("more"))
    scene.update()
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"needle", b"noodle"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert scene.update() == Updated()
    assert scene.texts("needle") == []
    assert scene.update().sessions == 1
    assert scene.texts("noodle") == ["the noodle"]


def test_sessions_that_are_written_as_a_whole(tmp_path: Path) -> None:
    scene = Scene(tmp_path, Rewriting())
    write(scene.home, "s1", user("first needle"), user("second needle"))
    scene.update()
    assert len(scene.find("needle")) == 2
    write(scene.home, "s1", user("third needle"))
    scene.update()
    assert scene.texts("needle") == ["third needle"]
    scene.index.close()


def test_what_is_said_again_is_found_once(scene: Scene) -> None:
    path = write(scene.home, "s1", user("needle one", native="a"), user("needle one", native="a", again=True))
    scene.update()
    append(path, user("needle one", native="a", again=True), user("needle two", native="b", again=True))
    scene.update()
    assert scene.texts("needle") == ["needle one", "needle two"]


def test_messages_are_counted_as_the_list_shows_them(scene: Scene) -> None:
    path = write(
        scene.home,
        "s1",
        user("one"),
        {"kind": "assistant", "text": "two"},
        {"kind": "assistant", "text": " "},
        {"kind": "thinking", "text": "no"},
        {"kind": "result", "text": "no"},
        user("no", side=True),
        user("no", inserted=True),
        user("no", again=True, native="x"),
    )
    scene.update()
    assert scene.index.counts() == {str(path): (path.stat().st_size, 2)}
    append(path, user("three"))
    scene.update()
    assert scene.index.counts() == {str(path): (path.stat().st_size, 3)}


def test_too_much_garbage_makes_the_index_anew(scene: Scene) -> None:
    write(scene.home, "s2", user("it stays, needle"))
    for number in range(30):
        write(scene.home, "s1", user(f"needle number{number} " + f"w{number} " * 500))
        scene.update()
        assert len(scene.find("needle")) == 2
        assert len(scene.find(f"number{number}")) == 1
    words = scene.index.connection.execute(
        "SELECT count(*) FROM words WHERE words MATCH 'needle'"
    ).fetchone()[0]
    assert words < 10


def test_narrowing_down(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    here, below, other = tmp_path / "here", tmp_path / "here" / "below", tmp_path / "hereafter"
    below.mkdir(parents=True)
    other.mkdir()
    (tmp_path / "link").symlink_to(here)
    write(scene.home, "s1", user("needle here"), brief={"cwd": str(tmp_path / "link")})
    write(scene.home, "s2", user("needle below"), brief={"cwd": str(below)})
    write(scene.home, "s3", user("needle other", at_ms=NOW_MS - 30 * DAY_MS), brief={"cwd": str(other)})
    write(scene.home, "s4", {"kind": "result", "text": "needle nowhere", "at_ms": NOW_MS})
    scene.places.append(made_home(tmp_path / "empty", scene.reader, "else"))
    scene.update()
    assert scene.texts("needle", here=here) == ["needle below", "needle here"]
    assert scene.texts("needle", here=tmp_path / "elsewhere") == []
    assert scene.texts("needle", since_ms=NOW_MS - 2 * DAY_MS) == [
        "needle below",
        "needle here",
        "needle nowhere",
    ]
    assert scene.texts("needle", since_ms=NOW_MS + DAY_MS) == []
    assert scene.texts("needle", where="tool") == ["needle nowhere"]
    assert scene.texts("needle", agents=("else",)) == []
    assert len(scene.texts("needle", agents=("else", "made"))) == 4
    assert len(scene.find("needle", limit=2)) == 2
    scene.index.close()


def test_our_own_marks_are_no_words(scene: Scene) -> None:
    write(scene.home, "s1", user("hello"))
    scene.update()
    assert scene.texts("ktext") == []
    assert scene.texts("k*") == []


def test_the_better_and_the_newer_come_first(scene: Scene) -> None:
    write(scene.home, "old", user("needle", at_ms=NOW_MS - 300 * DAY_MS))
    write(scene.home, "new", user("needle", at_ms=NOW_MS - DAY_MS))
    write(scene.home, "long", user("needle " + "hay " * 3_000, at_ms=NOW_MS - DAY_MS))
    write(scene.home, "tool", {"kind": "result", "text": "needle", "at_ms": NOW_MS - DAY_MS})
    scene.update()
    order = [hit.session for hit in scene.find("needle")]
    assert order[0] == "new"
    assert order.index("new") < order.index("tool")
    assert order[-1] == "long"


def test_no_session_drowns_the_others(scene: Scene) -> None:
    write(scene.home, "loud", *(user(f"needle {number}") for number in range(2_000)))
    write(scene.home, "calm", user("needle and some other words beside it"))
    os.utime(scene.home / "calm.jsonl", (1, 1))
    scene.update()
    found = [hit.session for hit in scene.find("needle other")]
    assert found == ["calm"]
    assert [hit.session for hit in scene.find("needle")].count("loud") == 3


def test_any_text_can_be_indexed(scene: Scene) -> None:
    blob = "QUJD" * 20_000
    write(
        scene.home,
        "s1",
        user("needle \x00 nul"),
        user(f"{blob} needle after a blob"),
        user("文字 needle 🎉", at_ms=1 << 80),
    )
    path = scene.home / "s2.jsonl"
    path.write_bytes(b'{"kind":"user","text":"needle half"}\n')
    scene.reader.entries = lambda text, start: _half(scene, text, start)  # type: ignore[method-assign]
    scene.update()
    assert len(scene.find("needle")) == 4
    assert scene.find("QUJDQUJD*") == []


def _half(scene: Scene, text: bytes, start: int) -> Sequence[Entry]:
    """Half of a character, as some decoders let through."""
    if b"half" in text:
        return (Entry(id=f"{start}.0", kind="user", text="needle half \ud83d"),)
    return MadeReader.entries(scene.reader, text, start)


def test_only_the_ends_of_a_long_output_are_indexed(scene: Scene) -> None:
    output = "beginning " + "filler " * 30_000 + "middle " + "filler " * 30_000 + "ending"
    write(scene.home, "s1", {"kind": "result", "text": output})
    scene.update()
    assert len(scene.find("beginning")) == len(scene.find("ending")) == 1
    assert scene.find("middle") == []


def test_one_record_may_hold_very_many_entries(scene: Scene) -> None:
    write(scene.home, "s1", [user(f"needle{number}") for number in range(7_000)])
    scene.update()
    assert len(scene.find("needle6999")) == len(scene.find("needle0")) == 1


def test_another_process_at_work_is_not_disturbed(scene: Scene) -> None:
    write(scene.home, "s1", user("needle"))
    scene.update()
    write(scene.home, "s2", user("needle two"))
    with locked(scene.index.path, 0) as mine:
        assert mine
        assert update(scene.index, scene.places, wait_s=0.1) == Updated(busy=True)
        assert scene.texts("needle") == ["needle"]
    assert scene.update().sessions == 1


@pytest.mark.parametrize("damage", [b"this is no database at all" * 100, b""])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    scene = Scene(tmp_path)
    write(scene.home, "s1", user("needle"))
    scene.update()
    scene.index.close()
    scene.index.path.write_bytes(damage)
    index, done = updated(scene.index.path, scene.places)
    scene.index = index
    assert done.sessions == 1
    assert scene.texts("needle") == ["needle"]
    index.close()


def test_a_torn_page_is_noticed_and_costs_a_rebuild(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    write(scene.home, "s1", *(user(f"needle {n} " + "words " * 200) for n in range(500)))
    scene.update()
    scene.index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    scene.index.close()
    with scene.index.path.open("r+b") as file:
        file.seek(16 * 1024)
        file.write(b"\xff" * 64 * 1024)
    write(scene.home, "s2", user("needle new"))
    scene.index, done = updated(scene.index.path, scene.places)
    assert done.sessions == 2
    assert scene.texts("needle new") == ["needle new"]
    scene.index.close()


def test_an_index_of_another_form_is_made_anew(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    write(scene.home, "s1", user("needle"))
    scene.update()
    scene.index.connection.execute("PRAGMA user_version = 999")
    scene.index.close()
    scene.index = open_index(scene.index.path)
    assert scene.texts("needle") == []
    assert scene.update().sessions == 1
    assert scene.texts("needle") == ["needle"]
    scene.index.close()


def test_nobody_else_may_read_the_index(scene: Scene) -> None:
    write(scene.home, "s1", user("needle"))
    scene.update()
    for path in scene.index.path.parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
