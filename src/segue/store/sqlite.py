"""SQLite: a file for this user alone, in WAL mode, so that readers never wait for a writer."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.core.errors import Broken
from segue.store.database import WAIT_S, Database
from segue.system import clock

if TYPE_CHECKING:
    from segue.store.watch import Watch

_LEFT: list[sqlite3.Connection] = []
"""Connections that the end of the process closes."""
_AWAY = "move it away, or set SEGUE_HOME to another directory"


class SQLite(Database):
    name = "sqlite"
    shared = False
    BEGIN_WRITING = "BEGIN IMMEDIATE"
    BEGIN_READING = "BEGIN"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        _make_file(path)
        try:
            self._connection = sqlite3.connect(
                path, timeout=WAIT_S, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as error:
            raise self._said(error) from error
        try:
            self._set_up()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def leave(self) -> None:
        """Writing the WAL back into the file would take longer than a small turn: a later process does it."""
        _LEFT.append(self._connection)

    def is_new(self) -> bool:
        tables = {name for (name,) in self.all("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "segue_migrations" not in tables:
            raise self._broken(f"is a database of another program; {_AWAY}")
        return not tables

    def watch(self, changed: Callable[[], None]) -> Watch:
        from segue.store.sqlite_watch import SQLiteWatch

        return SQLiteWatch(self, changed)

    def version(self) -> int | None:
        """Another number when another connection has changed the file. None: it cannot be read."""
        with self._lock:
            try:
                found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                return None
            return found

    def _set_up(self) -> None:
        self._connection.create_function("now_ms", 0, _now_ms)
        self._connection.create_function("folded", 1, str.lower, deterministic=True)
        self._to_wal()
        self._execute("PRAGMA synchronous = NORMAL", {})
        self._execute("PRAGMA foreign_keys = ON", {})

    def _to_wal(self) -> None:
        """The file keeps this mode. SQLite itself does not wait while another process changes it."""
        until = time.monotonic() + WAIT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise self._said(error) from error
                time.sleep(0.01)
            except sqlite3.Error as error:
                raise self._said(error) from error

    def _execute(self, sql: str, values: dict[str, Any]) -> Any:
        try:
            return self._connection.execute(sql, values)
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise
        except sqlite3.Error as error:
            raise self._said(error) from error

    def _execute_many(self, sql: str, rows: list[dict[str, Any]]) -> None:
        try:
            self._connection.executemany(sql, rows)
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
            raise
        except sqlite3.Error as error:
            raise self._said(error) from error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.rollback()

    def _said(self, error: sqlite3.Error) -> Broken:
        code = getattr(error, "sqlite_errorname", "")
        if code == "SQLITE_NOTADB":
            return self._broken(f"is not a database; {_AWAY}")
        if code.startswith("SQLITE_CORRUPT"):
            return self._broken(f"is damaged ({error}); {_AWAY}, and keep it: most of it can be recovered")
        if _is_busy(error):
            return self._away(f"is busy: another program has been writing for {WAIT_S} s; try again")
        return self._broken(f"cannot be used: {error}")


def _now_ms() -> int:
    """The clock of this database: that of the machine."""
    return clock.now_ms()


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _make_file(path: Path) -> None:
    """Create an empty file for this user alone, which is an empty database. SQLite's own would be readable by
    everyone."""
    try:
        if not path.parent.exists():
            os.makedirs(path.parent, mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Broken(f"the store {path} cannot be opened: {error.strerror}") from error
