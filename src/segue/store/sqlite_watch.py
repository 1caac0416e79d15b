"""The watch of a SQLite file. Its version is read in microseconds, and nothing else unless it has changed."""

from __future__ import annotations

from collections.abc import Callable

from segue.store.sqlite import SQLite
from segue.store.watch import Watch


class SQLiteWatch(Watch):
    def __init__(self, database: SQLite, changed: Callable[[], None]) -> None:
        super().__init__(database, changed)
        self._file = database

    def _work(self) -> None:
        seen: int | None = None
        while not self._ended.is_set():
            version = self._file.version()
            if version is None or version != seen:
                seen = version
                self._changed()
            self._ended.wait(self.pause_s)
