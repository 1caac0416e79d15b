"""The search index of this machine: which words are where in the native sessions' files.

It has no text, only words and positions (contentless FTS5), and can be rebuilt from the files at any time.
Words of dropped rows stay in the index as garbage until there is too much of it. One process writes at a
time, under a file lock; others can read meanwhile.

The writer has its own thread: while SQLite sorts words, the next sessions are read. Rows are committed
together with how far their files are read, so a killed process loses only what was not committed yet.
"""

from __future__ import annotations

import fcntl
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from segue.core.errors import Broken, InUse

FORM = 1
"""An index of another form is rebuilt."""
KINDS = ("user", "assistant", "thinking", "boundary", "state", "call", "result")
"""A row stores the position of its kind in this list."""
PAGE = 16 * 1024
TUNING = {"pgsz": PAGE - 400, "hashsize": 8_000_000, "automerge": 8}
"""FTS5 settings: sort more words in memory, and merge later. This saves a third of the time of a build."""
BUSY_S = 10.0

SCHEMA = """
CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY, agent TEXT NOT NULL, home BLOB NOT NULL, session TEXT NOT NULL,
    path BLOB NOT NULL, appends INTEGER NOT NULL, size INTEGER NOT NULL, changed_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL, place INTEGER NOT NULL, mark BLOB NOT NULL, cwd TEXT, messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL, first INTEGER NOT NULL, UNIQUE (path, agent)
);
CREATE TABLE rows (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, at INTEGER NOT NULL, n INTEGER NOT NULL,
    kind INTEGER NOT NULL, at_ms INTEGER
);
CREATE VIRTUAL TABLE words USING fts5 (text, mark, content='', tokenize='unicode61 remove_diacritics 2');
"""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A session's file, and how far it is indexed."""

    id: int
    agent: str
    home: bytes
    session: str
    path: bytes
    appends: bool
    size: int
    """The size when it was indexed to its end; smaller, or -1, if it is not indexed completely."""
    changed_ns: int
    inode: int
    place: int
    """Everything before it is indexed."""
    mark: bytes
    """A hash of the bytes at the beginning and before the place: it changes if the file is rewritten."""
    cwd: str | None
    messages: int
    bytes: int
    """How much of its text is indexed."""
    first: int
    """The lowest number of its rows."""


COLUMNS = ", ".join(File.__struct_fields__)
FILES = f"SELECT {COLUMNS} FROM files"  # noqa: S608 - our own names


class Index:
    """An open index. Not thread-safe."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def files(self) -> list[File]:
        found = self.connection.execute(FILES)
        return [File(**dict(zip(File.__struct_fields__, row, strict=True))) for row in found]

    def counts(self) -> dict[str, tuple[int, int]]:
        """By path: how large the file was when it was read, and how many messages it had then."""
        found = self.connection.execute("SELECT path, size, messages FROM files WHERE size >= 0")
        return {os.fsdecode(path): (size, messages) for path, size, messages in found}

    def state(self) -> Mapping[str, int]:
        return dict(self.connection.execute("SELECT name, value FROM state").fetchall())

    def size(self) -> int:
        """Its size on disk."""
        files = (Path(f"{self.path}{end}") for end in ("", "-wal"))
        return sum(path.stat().st_size for path in files if path.exists())

    def forget(self, file: int) -> None:
        """Have the next update read a file again, because it does not match its rows.

        If another process is writing, this does nothing: the next search will notice the same.
        """
        run = self.connection.execute
        run("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.OperationalError):
            run("UPDATE files SET size = -1, place = 0, mark = x'' WHERE id = ?", (file,))
        run(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")


def open_index(path: Path) -> Index:
    """Open the index. It is created if it is missing, damaged, or of another form."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        if (connection := _current(path)) is not None:
            return Index(path, connection)
    except sqlite3.OperationalError as error:
        raise Broken(f"cannot open the search index {path}: {error}") from error
    except sqlite3.DatabaseError:
        pass
    with locked(path, BUSY_S) as mine:
        if not mine:
            raise InUse("another process is creating the search index; try again in a moment")
        return Index(path, _made(path))


def discard(path: Path) -> None:
    """Delete a damaged index."""
    with locked(path, BUSY_S):
        _unlink(path)


@contextmanager
def locked(path: Path, wait_s: float) -> Iterator[bool]:
    """Hold the lock for writing the index. Yields False if another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _got(lock, time.monotonic() + wait_s)
    finally:
        os.close(lock)


def mark_of(path: Path, place: int) -> bytes:
    """A hash of the first and the last bytes before a place in a file; empty if it cannot be read."""
    reach = 1024
    try:
        with path.open("rb", buffering=0) as file:
            head = file.read(min(reach, place))
            file.seek(max(place - reach, 0))
            return blake2b(head + file.read(min(reach, place)), digest_size=12).digest()
    except OSError:
        return b""


def _got(lock: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)


def _connected(path: Path) -> sqlite3.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -32000")
    except BaseException:
        connection.close()
        raise
    return connection


def _unlink(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)


def _current(path: Path) -> sqlite3.Connection | None:
    """A connection to the index; None if it has another form."""
    with ExitStack() as stack:
        connection = stack.enter_context(closing(_connected(path)))
        if int(connection.execute("PRAGMA user_version").fetchone()[0]) != FORM:
            return None
        stack.pop_all()
        return connection


def _made(path: Path) -> sqlite3.Connection:
    """Create the index, under the lock, unless another process has done so. A readable file is kept, because
    other processes may have it open."""
    try:
        if (current := _current(path)) is not None:
            return current
        with closing(_connected(path)) as old:
            tables = old.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError:
        _unlink(path)
        tables = []
    connection = _connected(path)
    drop = " ".join(f'DROP TABLE IF EXISTS "{name}";' for (name,) in tables if "_" not in name)
    connection.executescript(f"BEGIN; {drop} {SCHEMA} PRAGMA user_version = {FORM}; COMMIT;")
    for name, value in TUNING.items():
        with suppress(sqlite3.OperationalError):  # an SQLite without one of these settings is only slower
            connection.execute("INSERT INTO words (words, rank) VALUES (?, ?)", (name, value))
    return connection


COMMIT_BYTES = 24 * 1024 * 1024
_MARKS = ", ".join("?" for _ in File.__struct_fields__)
SAVE_FILE = f"INSERT OR REPLACE INTO files ({COLUMNS}) VALUES ({_MARKS})"  # noqa: S608 - our own names
STATEMENT_ROWS = 1_000
WAITING = 4
"""How many batches can wait to be written."""


class Batch:
    """Some rows, and how far their files are read with them."""

    def __init__(self) -> None:
        self.words: list[Any] = []
        self.rows: list[Any] = []
        self.files: dict[int, File] = {}
        self.bytes = 0
        self.next = 1

    def add(self, row: tuple[int, int, int, int, int, int | None], text: str, mark: str) -> None:
        self.rows += row
        self.words += (row[0], text, mark)
        self.bytes += len(text)

    @property
    def count(self) -> int:
        return len(self.words) // 3


class Writer:
    """Writes batches in another thread, in order. A context manager."""

    def __init__(self, index: Index) -> None:
        self._connection = index.connection
        self._batches: queue.Queue[Batch | None] = queue.Queue(WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="index", daemon=True)
        self._open = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write everything that was put, even if the caller stopped with an error."""
        self._batches.put(None)
        self._thread.join()
        self._raise()

    def put(self, batch: Batch) -> None:
        self._raise()
        self._batches.put(batch)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            if self._error is None:
                self._try(batch)
        if self._error is None:
            self._try(None)

    def _try(self, batch: Batch | None) -> None:
        try:
            if batch is not None:
                self._write(batch)
            if self._open > (COMMIT_BYTES if batch is not None else 0):
                self._connection.execute("COMMIT")
                self._open = 0
        except BaseException as error:
            self._error = error
            if self._connection.in_transaction:
                self._connection.rollback()

    def _write(self, batch: Batch) -> None:
        run = self._connection.execute
        if not self._open:
            run("BEGIN IMMEDIATE")
        self._open += batch.bytes + 1
        self._insert("words (rowid, text, mark)", 3, batch.words)
        self._insert("rows (id, file, at, n, kind, at_ms)", 6, batch.rows)
        for file in batch.files.values():
            values = [getattr(file, name) for name in File.__struct_fields__]
            run(SAVE_FILE, values)
        run("INSERT OR REPLACE INTO state VALUES ('next', ?)", (batch.next,))

    def _insert(self, table: str, width: int, values: list[Any]) -> None:
        one = f"({', '.join('?' * width)})"
        for start in range(0, len(values), STATEMENT_ROWS * width):
            some = values[start : start + STATEMENT_ROWS * width]
            rows = ", ".join([one] * (len(some) // width))
            self._connection.execute(f"INSERT INTO {table} VALUES {rows}", some)  # noqa: S608 - our own names
