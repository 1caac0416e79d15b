"""Keeps a turn's events in the store, in batches; fragments of texts that arrive whole are left out."""

from __future__ import annotations

import time

import msgspec

from segue.core import events as ev
from segue.store.store import Store
from segue.turns.telling import Listener

BATCH = 50
PAUSE_S = 0.25


class Recorder:
    """Listens, passes on, and records. ``flush`` at the end.

    ``known``: so many events of this turn were recorded before, by a Segue that was killed.
    """

    def __init__(self, store: Store, turn: str, listener: Listener | None, known: int = 0) -> None:
        self._store, self._turn, self._listener, self._known = store, turn, listener, known
        self._rows: list[tuple[int, int, str]] = []
        self._seq = 0
        self._flushed = time.monotonic()

    def __call__(self, event: ev.Event) -> None:
        if not isinstance(event, ev.TextDelta | ev.Heard):
            self._seq += 1
            if self._seq > self._known:
                now_ms = time.time_ns() // 1_000_000
                self._rows.append((self._seq, now_ms, msgspec.json.encode(event).decode()))
            if len(self._rows) >= BATCH or time.monotonic() - self._flushed > PAUSE_S:
                self.flush()
        if self._listener is not None:
            self._listener(event)

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        self._flushed = time.monotonic()
        if rows:
            self._store.record(self._turn, rows)
