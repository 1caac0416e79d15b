"""Tells when a store may have changed, whoever changed it, without asking the store for rows.

What this process writes is told at the commit. What others write is found out by each database in its own
way: SQLite's file has a version that is cheap to read, PostgreSQL's server sends a notification. A watch has
one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.store.database import Database

BUSY_PAUSE_S, IDLE_PAUSE_S = 0.02, 0.1
"""How long a change that another process makes can remain unnoticed, where the store must be asked: while a
run of another process is followed, and otherwise."""


class Watch:
    """Calls ``changed`` after every change, sometimes without a reason, and once at the beginning.

    It is called in the thread that writes, or in that of the watch, and must be short.
    """

    def __init__(self, database: Database, changed: Callable[[], None]) -> None:
        self._database, self._changed = database, changed
        self.pause_s = IDLE_PAUSE_S
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="store-watch", daemon=True)

    def start(self) -> None:
        self._database.listeners.append(self._changed)
        self._thread.start()

    def close(self) -> None:
        """It ends soon; nobody waits for that, as a server may not answer."""
        self._ended.set()
        if self._changed in self._database.listeners:
            self._database.listeners.remove(self._changed)

    def _work(self) -> None:
        raise NotImplementedError
