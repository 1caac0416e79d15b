"""Taking a session of Codex away: its rollouts, what the shell left for it, and its entries in the indexes.

The indexes are SQLite files in the home, of which names and tables differ from version to version: every row
that belongs to the thread goes. ``session_index.jsonl`` holds the thread's names. ``history.jsonl`` is what
the user typed, in all sessions; Codex leaves it alone when it deletes one, and so does this.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from segue.agents.codex import files, names
from segue.agents.codex.ancestry import base
from segue.agents.reader import Stored
from segue.core.errors import Broken, InUse, Misuse

_DATABASES = ("state", "thread_history", "goals", "queue", "memories", "logs")
_OWNED = frozenset(("thread_id", "parent_thread_id", "child_thread_id"))
_KEYS = frozenset((("threads", "id"), ("jobs", "job_key")))
_PATIENCE_S = 5.0


def remove(stored: Stored) -> None:
    paths = [Path(named.path) for named in files.listed(stored.home) if named.thread == stored.id]
    for path in paths:
        if not path.parent.resolve().is_relative_to(stored.home.resolve()):
            raise Broken(f"{path} lies outside of its home: it is left alone")
    _refuse_if_needed(stored, paths)
    with ExitStack() as all_of_it:
        all_of_it.enter_context(_writer_lock(stored))
        databases = [all_of_it.enter_context(_locked(path)) for path in _databases(stored.home)]
        for database in databases:
            _forget(database, stored.id, paths)
        for database in databases:
            database.commit()
        _unname(stored)
        for path in (*paths, *_snapshots(stored)):
            path.unlink(missing_ok=True)


def _refuse_if_needed(stored: Stored, paths: list[Path]) -> None:
    """A fork holds only its own lines; Codex does not delete what one goes on from either."""
    own = {files.own_of(path) for path in paths}
    for named in files.listed(stored.home):
        if named.thread != stored.id and _origin(named.path) in own:
            raise Misuse(f"the session {named.thread} goes on from this one: remove that one first")


@lru_cache(maxsize=1 << 16)
def _origin(path: str) -> str | None:
    """Kept in memory, because many are removed one after the other, and a first line stays as it is."""
    try:
        before = base(Path(path))
    except OSError:
        return None
    return before.thread_id if before is not None else None


@contextmanager
def _writer_lock(stored: Stored) -> Iterator[None]:
    """New versions hold one for each thread that they run."""
    try:
        lock = (stored.home / "thread-writer-locks" / f"{stored.id}.lock").open("rb")
    except OSError:
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InUse(f"Codex is running the session {stored.id}; remove it when it has ended") from None
        yield


def _databases(home: Path) -> list[Path]:
    found = (path for path in home.glob("*_[0-9]*.sqlite") if path.name.rpartition("_")[0] in _DATABASES)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


@contextmanager
def _locked(path: Path) -> Iterator[sqlite3.Connection]:
    """A database in a transaction of ours, which is taken back unless it is committed."""
    with closing(sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)) as database:
        try:
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            why = f"{path.name} of Codex cannot be written to now ({error}); try again later"
            raise InUse(why) from error
        except sqlite3.DatabaseError as error:
            raise Broken(f"{path.name} of Codex is damaged ({error}); nothing was removed") from error
        try:
            yield database
        finally:
            if database.in_transaction:
                database.rollback()


def _forget(database: sqlite3.Connection, thread: str, paths: list[Path]) -> None:
    """Everything that depends on a thread before the thread itself: tables sort that way by their names."""
    gone = [(str(path),) for path in paths]
    try:
        for table, column in _columns(database):
            where = f'"{table}" WHERE "{column}" = ?'
            if column in _OWNED or (table, column) in _KEYS:
                database.execute(f"DELETE FROM {where}", (thread,))  # noqa: S608 - names of its own tables
            elif column == "rollout_path" and table != "threads":
                database.executemany(f"DELETE FROM {where}", gone)  # noqa: S608
    except sqlite3.DatabaseError as error:
        raise Broken(f"Codex's index cannot be put right: {error}; nothing was removed") from error


def _columns(database: sqlite3.Connection) -> list[tuple[str, str]]:
    return database.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY m.name, c.cid"
    ).fetchall()


def _unname(stored: Stored) -> None:
    """The index without the thread's lines; every other line as it is."""
    index = stored.home / names.INDEX
    with _index_lock(index):
        try:
            lines = index.read_bytes().splitlines(keepends=True)
        except OSError:
            return
        kept = [line for line in lines if names.naming(line).id != stored.id]
        if len(kept) < len(lines):
            mode = index.stat().st_mode & 0o777
            files.write(index, kept)
            index.chmod(mode)


@contextmanager
def _index_lock(index: Path) -> Iterator[None]:
    """The lock that new versions take around a naming; they hold it for a moment only."""
    try:
        lock = index.with_name(f"{index.name}.lock").open("rb")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _snapshots(stored: Stored) -> list[Path]:
    """What a killed run left of its shell's environment."""
    with suppress(OSError):
        folder = stored.home / "shell_snapshots"
        if not folder.is_symlink():
            return [folder / name for name in os.listdir(folder) if name.startswith(f"{stored.id}.")]
    return []
