"""Writes the index in a thread of its own: while SQLite sorts words, the next sessions are being read.

Rows and how far their files are read are committed together, so a kill at any moment costs no more than what
was not committed yet. A whole batch is one statement each: Python is needed only between them.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

from segue.sessions.index import COLUMNS, File, Index

COMMIT_BYTES = 24 * 1024 * 1024
_MARKS = ", ".join("?" for _ in File.__struct_fields__)
SAVE_FILE = f"INSERT OR REPLACE INTO files ({COLUMNS}) VALUES ({_MARKS})"  # noqa: S608 - our own names
STATEMENT_ROWS = 1_000
WAITING = 4
"""So many batches may wait to be written."""


class Batch:
    """Some rows, and how far the files are read with them."""

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
    """Takes batches from one thread and writes them in another, in their order. Used as a context."""

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
        """What was handed over is written, whatever made the caller stop."""
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
