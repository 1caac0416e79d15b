"""Copies of sessions: only what is new is stored, and what comes back is what was there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import zstandard

from segue.agents.base import StoredSession
from segue.config.schema import Account, Config, Keep
from segue.core.errors import Broken, Misuse
from segue.core.model import Host
from segue.sessions.copies import chunks as manifests
from segue.sessions.copies import keep as bounding
from segue.sessions.copies import pieces, restore
from segue.sessions.copies.chunks import LARGEST, Manifest, chunks_of, name_of, pack, unpack
from segue.sessions.copies.keep import SessionFiles, keep_copy
from segue.sessions.copies.restore import choose_copy, home_on, restore_copy
from segue.store.copies import KeptRow
from segue.store.records import Conversation
from segue.store.store import Store, open_store
from segue.system import files

ROOT = Path(__file__).parents[3]


class Folder:
    """An agent whose sessions are a file, or a directory with files, ``home/sessions/<id>``."""

    @property
    def format(self) -> Folder:
        return self

    def archive(self) -> Folder:
        return self

    def find(self, home: Path, session: str) -> StoredSession | None:
        path = home / "sessions" / session
        if not path.exists():
            return None
        return StoredSession(
            id=session, home=home, file=str(path), size=0, changed_ns=0, appends=path.is_file()
        )

    def files(self, stored: StoredSession) -> Sequence[Path]:
        if stored.path.is_file():
            return [stored.path]
        return sorted(path for path in stored.path.rglob("*") if path.is_file())


class Shelf:
    """A home with sessions, a store, and our own directory."""

    def __init__(self, place: Path, store: Store, limits: Keep | None = None) -> None:
        self.home, self.directory, self.store = place / "home", place / "kept", store
        self.limits, self.reader = limits or Keep(), Folder()
        self.chunks = chunks_of(store, self.directory)

    def path(self, name: str = "one") -> Path:
        path = self.home / "sessions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def keep(self, name: str = "one", account: str = "") -> bool:
        session = SessionFiles(
            agent="folder",
            account=account,
            native_id=name,
            conversation="c",
            host=Host("here"),
            home=self.home,
            cwd=Path("/w"),
        )
        return keep_copy(self.store, self.directory, self.limits, self.reader, session)  # type: ignore[arg-type]

    def row(self, name: str = "one") -> KeptRow:
        row = self.store.session_copy("folder", "", name)
        assert row is not None
        return row

    def manifest(self, name: str = "one") -> Manifest:
        manifest = manifests.read_manifest(self.row(name).manifest)
        assert manifest is not None
        return manifest

    def back(self, place: Path, name: str = "one") -> Path:
        return restore_copy(self.row(name), self.chunks, place).path

    def stored(self) -> set[str]:
        return set(self.chunks.sizes())


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with open_store(None, tmp_path / "segue.db") as store:
        store.add(Conversation(id="c", key="talk"), [])
        yield Shelf(tmp_path, store)


def plain(shelf: Shelf, name: str) -> bytes:
    """What a piece of the copy holds."""
    chunk = next(c for file in shelf.manifest().files for c in file.chunks if c.name == name)
    packed = shelf.chunks.get(name)
    assert packed is not None
    found = unpack(packed, name, chunk.size)
    assert found is not None
    return found


def test_of_a_file_that_grew_only_the_new_bytes_are_stored(shelf: Shelf, tmp_path: Path) -> None:
    path = shelf.path()
    path.write_bytes(b"first\n" * 2000)
    assert shelf.keep()
    before = shelf.stored()
    with path.open("ab") as file:
        file.write(b"second\n" * 10)
    shelf.keep()
    (new,) = shelf.stored() - before
    assert plain(shelf, new) == b"second\n" * 10
    assert shelf.back(tmp_path / "back").read_bytes() == path.read_bytes()


def test_of_a_file_that_grew_the_old_part_is_not_read(shelf: Shelf, tmp_path: Path) -> None:
    """What changes there unseen (no CLI does that) does not come into the copy."""
    path = shelf.path()
    path.write_bytes(b"a" * 100_000)
    shelf.keep()
    with path.open("r+b") as file:
        file.write(b"X")
        file.seek(0, 2)
        file.write(b"new")
    shelf.keep()
    assert shelf.back(tmp_path / "back").read_bytes() == b"a" * 100_000 + b"new"


def test_of_a_file_that_was_written_anew_equal_parts_are_found_again(shelf: Shelf, tmp_path: Path) -> None:
    path = shelf.path()
    parts = [random.Random(n).randbytes(50_000) for n in range(10)]
    for part in parts:
        with path.open("ab") as file:
            file.write(part)
        shelf.keep()
    before = shelf.stored()
    parts[3] = b"y" * 50_000
    other = path.with_name("other")
    other.write_bytes(b"".join(parts) + b"end")
    other.replace(path)
    shelf.keep()
    assert sorted(plain(shelf, name) for name in shelf.stored() - before) == [b"end", parts[3]]
    assert shelf.back(tmp_path / "back").read_bytes() == path.read_bytes()


def test_whatever_happens_to_a_file_the_copy_is_what_it_was(shelf: Shelf, tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), shelf.path()
    content = b""
    for step in range(60):
        match chance.randrange(5):
            case 0:
                content = content[: chance.randrange(len(content) + 1)]
            case 1:
                at = chance.randrange(len(content) + 1)
                content = content[:at] + chance.randbytes(chance.randrange(9000)) + content[at + 5000 :]
            case _:
                content += chance.randbytes(chance.randrange(20_000))
        beside = path.with_name("new")
        beside.write_bytes(content)
        beside.replace(path)
        shelf.keep()
        assert shelf.back(tmp_path / str(step)).read_bytes() == content, (seed, step)


def test_a_thousand_turns_are_few_pieces_and_come_back_whole(shelf: Shelf, tmp_path: Path) -> None:
    path = shelf.path()
    for n in range(1000):
        with path.open("ab") as file:
            file.write(random.Random(n).randbytes(1500).hex().encode() + b"\n")
        shelf.keep()
    (copy,) = shelf.manifest().files
    assert len(copy.chunks) <= pieces.MANY + 1 + path.stat().st_size // pieces.SMALL
    assert shelf.back(tmp_path / "back").read_bytes() == path.read_bytes()


def test_a_large_file_is_cut(shelf: Shelf, tmp_path: Path) -> None:
    path = shelf.path()
    path.write_bytes(random.Random(1).randbytes(5 * LARGEST + 7))
    shelf.keep()
    assert [chunk.size for chunk in shelf.manifest().files[0].chunks] == [LARGEST] * 5 + [7]
    assert shelf.back(tmp_path / "back").read_bytes() == path.read_bytes()


def test_a_directory_is_one_copy_and_what_is_unchanged_is_not_read_again(
    shelf: Shelf, tmp_path: Path
) -> None:
    folder = shelf.path()
    for n in range(50):
        (folder / "journal").mkdir(parents=True, exist_ok=True)
        (folder / "journal" / f"{n}.jsonl").write_text(f"line {n}\n" * 10)
    (folder / "empty").touch()
    shelf.keep()
    first = folder / "journal" / "0.jsonl"
    times = first.stat()
    first.write_text("LINE 0\n" * 10)
    os.utime(first, ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "journal" / "1.jsonl").write_text("other\n")
    (folder / "journal" / "2.jsonl").unlink()
    shelf.keep()
    back = shelf.back(tmp_path / "back")
    assert (back / "journal" / "0.jsonl").read_text() == "line 0\n" * 10
    assert (back / "journal" / "1.jsonl").read_text() == "other\n"
    assert sorted(p.relative_to(back) for p in back.rglob("*")) == sorted(
        p.relative_to(folder) for p in folder.rglob("*")
    )
    assert not [p for p in back.parent.iterdir() if p.name.startswith(".")]


def test_what_comes_back_is_for_its_user_alone(shelf: Shelf, tmp_path: Path) -> None:
    shelf.path().write_bytes(b"secret")
    old = os.umask(0)
    try:
        shelf.keep()
        back = shelf.back(tmp_path / "back")
    finally:
        os.umask(old)
    assert back.stat().st_mode & 0o777 == 0o600
    assert back.parent.stat().st_mode & 0o777 == 0o700
    for path in shelf.directory.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_nothing_that_is_there_is_overwritten(shelf: Shelf) -> None:
    folder = shelf.path()
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / name).write_text(name)
    shelf.keep()
    (folder / "a").unlink()
    (folder / "c").write_text("mine")
    with pytest.raises(Misuse, match=r"c already exists and differs from the copy"):
        shelf.back(shelf.home)
    assert sorted(path.name for path in folder.iterdir()) == ["b", "c"]
    (folder / "c").unlink()
    assert restore_copy(shelf.row(), shelf.chunks, shelf.home).files == 2
    assert [path.read_text() for path in sorted(folder.iterdir())] == ["a", "b", "c"]


def test_what_stands_beside_the_session_may_have_changed(shelf: Shelf) -> None:
    path, beside = shelf.path(), shelf.home / "beside"
    path.write_text("session")
    beside.write_text("x")
    shelf.keep()
    (file,) = shelf.manifest().files
    more = manifests.Manifest("sessions/one", True, (file, msgspec.structs.replace(file, path="beside")))
    row = msgspec.structs.replace(shelf.row(), manifest=manifests.write_manifest(more))
    path.unlink()
    restore_copy(row, shelf.chunks, shelf.home)
    assert (path.read_text(), beside.read_text()) == ("session", "x")


def test_what_is_behind_is_brought_up_to_date_only_when_asked(shelf: Shelf) -> None:
    path = shelf.path()
    path.write_bytes(b"one\ntwo\n")
    shelf.keep()
    path.write_bytes(b"one\n")
    with pytest.raises(Misuse):
        restore_copy(shelf.row(), shelf.chunks, shelf.home)
    path.write_bytes(b"One\n")
    with pytest.raises(Misuse):
        restore_copy(shelf.row(), shelf.chunks, shelf.home, behind=True)
    path.write_bytes(b"one\ntwo\nthree\n")
    with pytest.raises(Misuse):
        restore_copy(shelf.row(), shelf.chunks, shelf.home, behind=True)
    path.write_bytes(b"one\n")
    assert restore_copy(shelf.row(), shelf.chunks, shelf.home, behind=True).files == 1
    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(("harm", "said"), [(None, "missing"), (b"nonsense", "damaged"), (b"", "missing")])
def test_a_copy_that_is_not_whole_puts_nothing_back(
    shelf: Shelf, tmp_path: Path, harm: bytes | None, said: str
) -> None:
    folder = shelf.path()
    folder.mkdir()
    (folder / "a").write_text("first")
    (folder / "b").write_text("second")
    shelf.keep()
    chunk = next(shelf.directory.rglob(f"{shelf.manifest().files[1].chunks[0].name}*"))
    chunk.unlink() if harm is None else chunk.write_bytes(harm)
    with pytest.raises(Broken, match=said):
        shelf.back(tmp_path / "back")
    assert not [path for path in (tmp_path / "back").rglob("*") if path.is_file()]
    shelf.path("two").write_text("second")
    shelf.keep("two")
    assert shelf.back(tmp_path / "back", "two").read_text() == "second", "the piece was stored anew"


def _gone(path: Path) -> None:
    path.unlink()


def _short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("harm", [_gone, _short, _empty])
@pytest.mark.parametrize("then", ["grew", "written anew", "nothing"])
def test_a_piece_that_was_lost_is_stored_again(
    shelf: Shelf, tmp_path: Path, harm: Callable[[Path], None], then: str
) -> None:
    path = shelf.path()
    for part in (b"first\n" * 500, b"second\n" * 500, b"third\n" * 500):
        with path.open("ab") as file:
            file.write(part)
        shelf.keep()
    lost = shelf.manifest().files[0].chunks[1]
    harm(next(shelf.directory.rglob(f"{lost.name}.zst")))
    if then == "grew":
        with path.open("ab") as file:
            file.write(b"fourth\n")
    elif then == "written anew":
        path.with_name("new").write_bytes(path.read_bytes() + b"fourth\n")
        path.with_name("new").replace(path)
    shelf.keep()
    assert shelf.manifest().files[0].chunks[:3][1] == lost
    assert shelf.back(tmp_path / "back").read_bytes() == path.read_bytes()


def test_a_lost_piece_is_stored_again_by_another_session_with_the_same_words(
    shelf: Shelf, tmp_path: Path
) -> None:
    shelf.path("one").write_bytes(b"same" * 100)
    shelf.keep("one")
    (piece,) = shelf.directory.rglob("*.zst")
    _short(piece)
    shelf.path("two").write_bytes(b"same" * 100)
    shelf.keep("two")
    for name in ("one", "two"):
        assert shelf.back(tmp_path / name, name).read_bytes() == b"same" * 100


class Everything(Folder):
    """A reader that does not ask what it is that lies there."""

    def files(self, stored: StoredSession) -> Sequence[Path]:
        return sorted(stored.path.iterdir()) if stored.path.is_dir() else [stored.path]


def test_only_files_are_copied_and_no_link_leads_elsewhere(shelf: Shelf, tmp_path: Path) -> None:
    shelf.reader = Everything()
    folder, secret = shelf.path(), tmp_path / "secret"
    folder.mkdir()
    secret.write_text("a key")
    (folder / "file").write_text("mine")
    (folder / "link").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    assert shelf.keep()
    assert [file.path for file in shelf.manifest().files] == ["sessions/one/file"]


def test_a_file_that_is_another_thing_in_the_next_moment_is_not_copied(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "nothing"):
        assert pieces.copy_file(tmp_path / name, name, None, shelf.chunks, set(), follow=False) is None
    assert shelf.stored() == set()


def test_a_session_may_be_a_link_to_a_file_and_to_nothing_else(shelf: Shelf, tmp_path: Path) -> None:
    shelf.reader = Everything()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("all that was said")
    shelf.path("one").symlink_to(elsewhere)
    assert shelf.keep("one")
    assert shelf.back(tmp_path / "back").read_text() == "all that was said"
    os.mkfifo(tmp_path / "pipe")
    shelf.path("two").symlink_to(tmp_path / "pipe")
    assert not shelf.keep("two")
    shelf.path("one").unlink()
    os.mkfifo(shelf.path("one"))
    assert not shelf.keep("one")
    assert shelf.back(tmp_path / "again").read_text() == "all that was said", "the copy of before stays"
    with pytest.raises(Misuse, match="already exists"):
        shelf.back(shelf.home)


def test_what_others_put_there_meanwhile_is_not_taken_back(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shelf.path()
    folder.mkdir()
    for name in ("a", "b", "c", "d", "e"):
        (folder / name).write_text(name)
    shelf.keep()
    for name in ("a", "b", "c", "d"):
        (folder / name).unlink()
    link = files.place_new

    def failing(part: Path, target: Path) -> None:
        if target.name == "d":
            (folder / "new").write_text("a")
            (folder / "new").replace(folder / "a")
            with (folder / "b").open("a") as file:
                file.write("more")
            raise OSError("no more")
        link(part, target)

    monkeypatch.setattr(restore, "place_new", failing)
    with pytest.raises(Broken):
        shelf.back(shelf.home)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "a", "b": "bmore", "e": "e"}


def test_where_links_are_not_known_nothing_is_overwritten_either(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shelf.path()
    path.write_text("kept")
    shelf.keep()
    mine = ""

    def link(part: Path, target: Path) -> None:
        if mine:
            target.write_text(mine)
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    assert shelf.back(tmp_path / "back").read_text() == "kept"
    path.unlink()
    mine = "mine"
    with pytest.raises(Misuse, match="was created meanwhile"):
        shelf.back(shelf.home)
    assert path.read_text() == "mine"


def test_of_two_accounts_with_the_same_session_one_must_be_named(shelf: Shelf) -> None:
    shelf.path("12345").write_text("x")
    for account in ("", "work"):
        shelf.keep("12345", account)
    for name in ("12345", "1234", "folder:12345", "folder:1234"):
        with pytest.raises(Misuse, match=r": folder/:12345, folder/work:12345$"):
            choose_copy(shelf.store, name)
    for account in ("", "work"):
        for begin in ("12345", "1234"):
            (row,) = choose_copy(shelf.store, f"folder/{account}:{begin}")
            assert row.account == account


def test_a_copy_of_an_account_that_is_not_known_here_has_no_home_here(shelf: Shelf) -> None:
    shelf.path().write_text("x")
    shelf.keep("one", "work")
    row = shelf.store.session_copy("folder", "work", "one")
    assert row is not None
    mine = msgspec.structs.replace(row, agent="claude")
    assert home_on(mine, Host("here"), Config(), {}) == shelf.home
    for accounts in ({}, {"other": Account(agent="claude")}, {"work": Account(agent="codex")}):
        with pytest.raises(Misuse, match=r'the account "work" of claude on here, which is not known here'):
            home_on(mine, Host("there"), Config(accounts=accounts), {})
    declared = {"work": Account(agent="claude", home="/homes/work")}
    assert home_on(mine, Host("there"), Config(accounts=declared), {}) == Path("/homes/work")


def test_a_copy_does_not_leave_its_home(shelf: Shelf, tmp_path: Path) -> None:
    shelf.path().write_text("x")
    shelf.keep()
    for path in ("../out", "/out", "a/../../out", ""):
        manifest = shelf.row().manifest.replace("sessions/one", path)
        row = KeptRow(
            **{**{f: getattr(shelf.row(), f) for f in KeptRow.__struct_fields__}, "manifest": manifest}
        )
        with pytest.raises(Broken, match="outside of its home"):
            restore_copy(row, shelf.chunks, tmp_path / "back")


@pytest.mark.parametrize(
    "root",
    ["../secret", "{home}/../secret", "a/../../secret", "secret", "", "./.", "../one", "sessions/../../one"],
)
def test_a_copy_is_not_made_of_what_another_names(shelf: Shelf, tmp_path: Path, root: str) -> None:
    """The store may be shared: what stands there of a copy may not have the next one take up other files."""
    shelf.path().write_text("mine")
    shelf.keep()
    for place in (tmp_path, shelf.home):
        (place / "secret").write_text("a login")
    (tmp_path / "one").write_text("of the session's own name, but outside")
    told = msgspec.structs.replace(shelf.manifest(), root=root.format(home=shelf.home))
    row = msgspec.structs.replace(shelf.row(), manifest=manifests.write_manifest(told))
    assert shelf.store.save_copy(row, shelf.row())
    shelf.path().write_text("mine, and more")
    assert shelf.keep()
    assert [(file.path, file.size) for file in shelf.manifest().files] == [("sessions/one", 14)]
    assert shelf.manifest().root == "sessions/one"


def test_a_piece_takes_no_more_memory_than_a_piece_may_have() -> None:
    whole, size = zstandard.ZstdCompressor().compress(bytes(1 << 29)), 1 << 29
    lies = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 29))
    for packed, told in ((whole, size), (whole, 1000), (lies, 1000), (lies, size)):
        tracemalloc.start()
        found = unpack(packed, "x", told)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found is None
        assert peak < 4 * LARGEST
    plain = b"as it should be"
    assert unpack(pack(plain), name_of(plain), len(plain)) == plain


@pytest.mark.parametrize("size", [-1, 0, 1 << 40])
def test_a_copy_goes_on_from_one_whose_pieces_have_impossible_sizes(
    shelf: Shelf, tmp_path: Path, size: int
) -> None:
    shelf.path().write_bytes(b"x" * 5_000)
    shelf.keep()
    (file,) = shelf.manifest().files
    odd = msgspec.structs.replace(
        file, inode=0, chunks=(msgspec.structs.replace(file.chunks[0], size=size), *file.chunks)
    )
    told = msgspec.structs.replace(shelf.manifest(), files=(odd,))
    row = msgspec.structs.replace(shelf.row(), manifest=manifests.write_manifest(told))
    assert shelf.store.save_copy(row, shelf.row())
    assert shelf.keep()
    assert shelf.back(tmp_path / "back").read_bytes() == b"x" * 5_000


def test_a_session_that_is_too_large_is_not_kept(shelf: Shelf) -> None:
    shelf.limits = Keep(max_session_mb=1)
    shelf.path().write_bytes(b"x" * (bounding.MB + 1))
    assert not shelf.keep()
    assert shelf.store.session_copies() == []


def test_the_oldest_copies_go_when_there_are_too_many(shelf: Shelf) -> None:
    shelf.limits = Keep(max_mb=2)
    for n in range(5):
        shelf.path(str(n)).write_bytes(random.Random(n).randbytes(bounding.MB // 2))
        shelf.keep(str(n))
    left = [row.native_id for row in shelf.store.session_copies()]
    assert left == ["4", "3", "2"]
    assert sum(row.packed for row in shelf.store.session_copies()) <= 2 * bounding.MB


def test_a_copy_that_was_not_used_for_long_goes(shelf: Shelf) -> None:
    for name in ("old", "new"):
        shelf.path(name).write_text(name)
        shelf.keep(name)
    shelf.store._db.run("UPDATE kept SET used_ms = used_ms - 91 * 86400000 WHERE native_id = 'old'")
    shelf.keep("new")
    assert [row.native_id for row in shelf.store.session_copies()] == ["new"]


def test_pieces_that_no_copy_needs_are_collected_but_not_those_in_use(shelf: Shelf, tmp_path: Path) -> None:
    shelf.path("one").write_bytes(b"shared")
    shelf.path("two").write_bytes(b"shared")
    shelf.keep("one")
    shelf.keep("two")
    shelf.path("one").write_bytes(b"other")
    shelf.keep("one")
    shelf.path("one").write_bytes(b"again")
    shelf.keep("one")
    assert len(shelf.stored()) == 3
    bounding.collect_garbage(shelf.store, shelf.chunks, shelf.directory)
    assert len(shelf.stored()) == 3, "somebody may just be about to name it"
    bounding.collect_garbage(shelf.store, shelf.chunks, shelf.directory, unused_s=0)
    assert len(shelf.stored()) == 2
    assert shelf.row("one").garbage == 0
    assert shelf.back(tmp_path / "1", "one").read_bytes() == b"again"
    assert shelf.back(tmp_path / "2", "two").read_bytes() == b"shared"


def test_garbage_is_collected_by_itself(shelf: Shelf) -> None:
    """A day later, or when it is a tenth of all there may be."""
    shelf.limits = Keep(max_mb=2)
    old = time.time() - 2 * bounding.UNUSED_S
    for n in range(4):
        shelf.path().write_bytes(random.Random(n).randbytes(bounding.MB // 8))
        shelf.keep()
        for path in (shelf.directory / "chunks").rglob("*.zst"):
            os.utime(path, (old, old))
    assert len(shelf.stored()) == 2, "what was collected last, and what came after"


def test_nothing_is_collected_while_a_copy_cannot_be_understood(shelf: Shelf) -> None:
    shelf.path().write_bytes(b"x")
    shelf.keep()
    shelf.store._db.run("UPDATE kept SET manifest = '{\"form\": 2}'")
    bounding.collect_garbage(shelf.store, shelf.chunks, shelf.directory, unused_s=0)
    assert len(shelf.stored()) == 1


def test_a_forgotten_conversation_has_no_copies(shelf: Shelf) -> None:
    shelf.path().write_bytes(b"x")
    shelf.keep()
    shelf.store.remove("c")
    assert shelf.store.session_copies() == []
    shelf.keep()
    assert shelf.store.session_copies() == [], "the turn ended just after"


def test_two_that_keep_at_once_leave_a_whole_copy(shelf: Shelf, tmp_path: Path) -> None:
    path = shelf.path()
    path.touch()
    troubles: list[Exception] = []

    def work() -> None:
        try:
            with open_store(None, tmp_path / "segue.db") as store:
                mine = Shelf(tmp_path, store)
                for _ in range(20):
                    mine.keep()
        except Exception as error:
            troubles.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for n in range(100):
        with path.open("ab") as file:
            file.write(b"%d\n" % n)
    for worker in workers:
        worker.join()
    assert troubles == []
    shelf.keep()
    assert shelf.back(tmp_path / "back").read_bytes() == path.read_bytes()


KILLED = """
import sys
from pathlib import Path
from segue.store.store import open_store
from tests.unit.sessions.test_copies import Shelf
place = Path(sys.argv[1])
with open_store(None, place / "segue.db") as store:
    shelf = Shelf(place, store)
    print("ready", flush=True)
    for n in range(10_000):
        with shelf.path().open("ab") as file:
            file.write((b"%d" % n) * 20_000 + b"\\n")
        shelf.keep()
"""


def test_whoever_is_killed_leaves_a_copy_that_can_be_used(
    shelf: Shelf, tmp_path: Path, seed: int, soak: bool
) -> None:
    chance = random.Random(seed)
    path = shelf.path()
    path.write_bytes(b"begin\n")
    shelf.keep()
    for kill in range(100 if soak else 6):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        back = shelf.back(tmp_path / f"back{kill}").read_bytes()
        assert path.read_bytes().startswith(back), (seed, kill)
        assert back.startswith(b"begin\n")
        bounding.collect_garbage(shelf.store, shelf.chunks, shelf.directory, unused_s=0)
        needed = {chunk.name for chunk in shelf.manifest().unique()}
        assert shelf.stored() == needed, "what was left half done is collected"
        if path.stat().st_size > 3_000_000:
            path.write_bytes(b"begin\n")
            shelf.keep()
