"""Codex's sessions on disk: one for each thread, in its current file; read, and deleted.

A fork continues another rollout, which contains the earlier lines. Those lines are shown too: their places
are negative, counted back from the beginning of the session's own file.

A session is deleted with its rollouts, its shell snapshots, and its rows in Codex's indexes. These are SQLite
files in the home; their names and tables differ between versions, so every row that belongs to the thread is
deleted. ``session_index.jsonl`` contains the thread's names. ``history.jsonl`` contains what the user typed
in all sessions; Codex does not change it when it deletes a session, and neither does this.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO

from segue.agents.base import (
    AfterAnchor,
    Record,
    RepairedCopy,
    RepairOptions,
    SessionArchive,
    StoredSession,
    WindowRules,
    damaged,
)
from segue.agents.codex import rollouts
from segue.agents.codex.brief import NAMES, brief, thread_name
from segue.agents.codex.entries import entries
from segue.agents.codex.rollouts import Part
from segue.agents.jsonl import JsonlArchive
from segue.core.errors import Broken, InUse, Misuse
from segue.core.transcript import Brief, Entry
from segue.system.files import whole_file

_DATABASES = ("state", "thread_history", "goals", "queue", "memories", "logs")
_OWNED = frozenset(("thread_id", "parent_thread_id", "child_thread_id"))
_KEYS = frozenset((("threads", "id"), ("jobs", "job_key")))
_PATIENCE_S = 5.0


class CodexArchive(JsonlArchive):
    window_rules = WindowRules(reserved=0, compacts_at=0.947, window=258_400, tried=("0.104.0", "0.166.0"))
    """The window that Codex reports already lacks the 5 % kept free for the answer, and Codex compacts at
    90 % of the full window: 0.9 / 0.95. The default is that of unknown models: 272,000 tokens less 5 %."""

    def stored(self, home: Path) -> Iterator[StoredSession]:
        newest: dict[str, rollouts.Named] = {}
        for named in rollouts.list_rollouts(home):
            other = newest.get(named.thread)
            if other is None or named.rank > other.rank:
                newest[named.thread] = named
        for named in newest.values():
            stored = rollouts.stored(home, named.thread, named.path)
            if stored is not None:
                yield stored

    def brief(self, stored: StoredSession) -> Brief:
        return brief(stored)

    def stamp(self, home: Path) -> str:
        """Names are in an index beside the sessions: a cached brief is valid while the index is the same."""
        try:
            status = os.stat(home / NAMES)
        except OSError:
            return ""
        return f"{status.st_mtime_ns}/{status.st_size}"

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return entries(text, start)

    def opened(self, stored: StoredSession) -> AbstractContextManager[IO[bytes]]:
        return rollouts.opened(stored.path)

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        if start <= 0:
            for part in reversed(_origins(stored)):
                if not start or start < _end(part):
                    yield from self._read_part(part, start or -part.before)
        yield from super().read(stored, max(start, 0))

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        if end is None or end > 0:
            yield from super().back(stored, end)
        place = 0 if end is None else min(end, 0)
        for part in _origins(stored):
            if place > -part.before:
                yield from self._read_part_back(part, place)

    def files(self, stored: StoredSession) -> Sequence[Path]:
        """The rollout and those that it continues: Codex cannot resume it without them."""
        return (stored.path, *(part.path for part in _origins(stored) if part.path is not None))

    def after(self, anchor: str) -> AfterAnchor:
        """An anchor is the number of bytes before it."""
        offset = int(anchor.split(":")[0])
        return AfterAnchor(lambda entry: int(entry.id.split(".")[0]) < offset)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        from segue.agents.codex.repair import repair

        return repair(stored, new_id, options)

    def remove(self, stored: StoredSession) -> None:
        remove(stored)

    def _read_part(self, part: Part, start: int) -> Iterator[Record]:
        """The lines of an earlier rollout, from a place on."""
        if part.path is None:
            yield _missing(part)
            return
        try:
            for line in rollouts.part_lines(part, start):
                yield self._record(line.start, line.next, line.text)
        except OSError as error:
            yield _unreadable(part, error)

    def _read_part_back(self, part: Part, end: int) -> Iterator[Record]:
        if part.path is None:
            yield _missing(part)
            return
        try:
            for line in rollouts.part_lines_back(part, end):
                yield self._record(line.start, line.next, line.text)
        except OSError as error:
            yield _unreadable(part, error)


ARCHIVE: SessionArchive = CodexArchive()


def _origins(stored: StoredSession) -> list[Part]:
    """The rollouts before this one, the nearest first."""
    return list(rollouts.parts(stored.home, stored.path))[1:]


def _end(part: Part) -> int:
    return (part.length or 0) - part.before


def _missing(part: Part) -> Record:
    why = "the earlier history is in a session that no longer exists"
    return Record(-part.before, -part.before + 1, (damaged(-part.before, why),))


def _unreadable(part: Part, error: OSError) -> Record:
    return Record(-part.before, _end(part), (damaged(-part.before, f"it cannot be read: {error}"),))


def remove(stored: StoredSession) -> None:
    paths = [Path(named.path) for named in rollouts.list_rollouts(stored.home) if named.thread == stored.id]
    for path in paths:
        if not path.parent.resolve().is_relative_to(stored.home.resolve()):
            raise Broken(f"{path} leads outside its home through a link, and is not deleted")
    _refuse_if_needed(stored, paths)
    with ExitStack() as stack:
        stack.enter_context(_writer_lock(stored))
        databases = [stack.enter_context(_locked(path)) for path in _databases(stored.home)]
        for database in databases:
            _forget(database, stored.id, paths)
        for database in databases:
            database.commit()
        _unname(stored)
        for path in (*paths, *_snapshots(stored)):
            path.unlink(missing_ok=True)


def _refuse_if_needed(stored: StoredSession, paths: list[Path]) -> None:
    """Raise ``Misuse`` if a fork continues this session: it has only its own lines. Codex refuses too."""
    own = {rollouts.own_of(path) for path in paths}
    for named in rollouts.list_rollouts(stored.home):
        if named.thread != stored.id and _origin(named.path) in own:
            raise Misuse(f"the session {named.thread} continues this one: remove that one first")


@lru_cache(maxsize=1 << 16)
def _origin(path: str) -> str | None:
    """Cached, because many sessions are removed one after another, and a first line never changes."""
    return rollouts.origin_of(Path(path))


@contextmanager
def _writer_lock(stored: StoredSession) -> Iterator[None]:
    """Take the lock that new versions hold for each thread that they run."""
    try:
        lock = (stored.home / "thread-writer-locks" / f"{stored.id}.lock").open("rb")
    except OSError:
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InUse(f"Codex is running the session {stored.id}; remove it after it has ended") from None
        yield


def _databases(home: Path) -> list[Path]:
    paths = (path for path in home.glob("*_[0-9]*.sqlite") if path.name.rpartition("_")[0] in _DATABASES)
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


@contextmanager
def _locked(path: Path) -> Iterator[sqlite3.Connection]:
    """A database in a transaction, which is rolled back unless it is committed."""
    with closing(sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)) as database:
        try:
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            why = f"Codex's {path.name} cannot be written to now ({error}); try again later"
            raise InUse(why) from error
        except sqlite3.DatabaseError as error:
            raise Broken(f"Codex's {path.name} is damaged ({error}); nothing was deleted") from error
        try:
            yield database
        finally:
            if database.in_transaction:
                database.rollback()


def _forget(database: sqlite3.Connection, thread: str, paths: list[Path]) -> None:
    """Delete a thread's rows, those that depend on it first: the names of the tables sort that way."""
    gone = [(str(path),) for path in paths]
    try:
        for table, column in _columns(database):
            where = f'"{table}" WHERE "{column}" = ?'
            if column in _OWNED or (table, column) in _KEYS:
                database.execute(f"DELETE FROM {where}", (thread,))  # noqa: S608 - names of its own tables
            elif column == "rollout_path" and table != "threads":
                database.executemany(f"DELETE FROM {where}", gone)  # noqa: S608
    except sqlite3.DatabaseError as error:
        raise Broken(f"Codex's index cannot be changed: {error}; nothing was deleted") from error


def _columns(database: sqlite3.Connection) -> list[tuple[str, str]]:
    return database.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.name, c.cid"
    ).fetchall()


def _unname(stored: StoredSession) -> None:
    """Remove the thread's lines from the index of names; all other lines stay the same."""
    index = stored.home / NAMES
    with _index_lock(index):
        try:
            lines = index.read_bytes().splitlines(keepends=True)
        except OSError:
            return
        others = [line for line in lines if thread_name(line).id != stored.id]
        if len(others) < len(lines):
            with whole_file(index) as file:
                os.fchmod(file.fileno(), index.stat().st_mode & 0o777)
                file.writelines(others)


@contextmanager
def _index_lock(index: Path) -> Iterator[None]:
    """The lock that new versions hold for a moment while they name a thread."""
    try:
        lock = index.with_name(f"{index.name}.lock").open("rb")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _snapshots(stored: StoredSession) -> list[Path]:
    """The shell snapshots that a killed run left behind."""
    with suppress(OSError):
        folder = stored.home / "shell_snapshots"
        if not folder.is_symlink():
            return [folder / name for name in os.listdir(folder) if name.startswith(f"{stored.id}.")]
    return []
