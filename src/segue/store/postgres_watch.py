"""The watch of a PostgreSQL store: a connection of its own that the server sends notifications to.

The triggers of the feed notify at commit. If the connection is lost, it is made again, and whoever waits is
told that there may be changes: what was notified meanwhile is in the feed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from segue.core.errors import SegueError
from segue.store.postgres import Postgres
from segue.store.watch import Watch

CHANNEL = "segue_feed"
SAFETY_S = 60.0
"""After this long without a notification, the server is asked whether it is still there, and ``changed`` is
called."""
RECONNECT_S = (0.1, 2.0)
"""The pause before the connection is made again: at first, and at most."""


class PostgresWatch(Watch):
    def __init__(self, database: Postgres, changed: Callable[[], None]) -> None:
        super().__init__(database, changed)
        self._server = database
        self._end, self._ending = os.pipe()

    def close(self) -> None:
        if not self._ended.is_set():
            os.write(self._ending, b"x")  # first: the thread closes the pipe when it ends
            super().close()

    def _work(self) -> None:
        try:
            self._stay_connected()
        finally:
            os.close(self._end)
            os.close(self._ending)

    def _stay_connected(self) -> None:
        pause_s = RECONNECT_S[0]
        while not self._ended.is_set():
            with suppress(SegueError, psycopg.Error, OSError), self._server.connect() as connection:
                connection.execute(f"LISTEN {CHANNEL}".encode())
                pause_s = RECONNECT_S[0]
                self._listen(connection)
            self._ended.wait(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_S[1])

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        """Until the end, or until the connection is lost."""
        arrivals = select.poll()
        for each in (connection.fileno(), self._end):
            arrivals.register(each, select.POLLIN)
        while not self._ended.is_set():
            self._changed()
            if not arrivals.poll(SAFETY_S * 1000):
                connection.execute("SELECT 1")
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                pass
