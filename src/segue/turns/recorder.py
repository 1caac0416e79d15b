"""Keeps a turn's events in the store, beside the turn: whatever the store does, the agent goes on.

Events wait in a bounded buffer until a thread has written them, in batches, and again and again while the
store is away; calls of tools are written at once. What finds no room is counted and marked: the stream file
has it. Fragments of texts that arrive whole are left out, and so is the answer: it stands among the messages.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import Any

import msgspec

from segue.core import events as ev
from segue.core.prompt_parts import elide
from segue.runner.attempt import Listener
from segue.store.store import Store
from segue.system import clock

FIELD_BYTES = 4_000
"""Of one text, one input: several times what is ever shown of it to another voice."""
BATCH = 50
"""So many are written without waiting for more."""
MOST = 1_000
"""So many at a time."""
PAUSE_S = 0.25
AGAIN_S = (0.1, 2.0)
"""After how long a write that failed is tried again: at first, and in the end."""
ROOM_ROWS = 20_000
ROOM_BYTES = 16 * 1024 * 1024

Row = tuple[int, int, str]


class Recorder:
    """Listens, records, and passes on. ``finish`` at the end, ``give_up`` if that came to nothing."""

    def __init__(self, store: Store, turn: str, listener: Listener | None) -> None:
        self._store, self._turn, self._listener = store, turn, listener
        self.trouble: Exception | None = None
        """Why nothing can be written just now."""
        self._changed = threading.Condition()
        self._rows: deque[Row] = deque()
        self._size = 0
        self._seq = 0
        self._left_out = 0
        self._urgent = self._over = False
        self._thread: threading.Thread | None = None

    def __call__(self, event: ev.Event) -> None:
        if not isinstance(event, ev.TextDelta | ev.Heard):
            self._take(event)
        if self._listener is not None:
            self._listener(event)

    def finish(self, within_s: float) -> bool:
        """Whether all is written; waits for it, at most so long."""
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._rows, within_s)

    def give_up(self) -> int:
        """Try no more; how many events are not written."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            return len(self._rows) + self._left_out

    def _take(self, event: ev.Event) -> None:
        json = recorded(event)
        with self._changed:
            self._seq += 1
            if len(self._rows) >= ROOM_ROWS or self._size > ROOM_BYTES:
                self._left_out += 1
                return
            self._mark(self._seq - 1)
            self._add(self._seq, json)
            self._urgent = self._urgent or isinstance(event, ev.ToolCall)
            if self._thread is None and not self._over:
                self._thread = threading.Thread(target=self._write, daemon=True)
                self._thread.start()
            elif self._urgent or len(self._rows) >= BATCH:
                self._changed.notify_all()

    def _mark(self, seq: int) -> None:
        """Where events are missing, the last of them says so."""
        if self._left_out:
            notice = ev.Notice(f"{self._left_out:,} events are not recorded here: the store was away")
            self._left_out = 0
            self._add(seq, recorded(notice))

    def _add(self, seq: int, json: str) -> None:
        self._rows.append((seq, clock.now_ms(), json))
        self._size += len(json)

    def _write(self) -> None:
        """The thread's work, as long as there is any."""
        pause_s = AGAIN_S[0]
        while rows := self._due():
            try:
                self._store.record(self._turn, rows)
            except Exception as error:
                self.trouble = error
                with self._changed:
                    self._changed.wait_for(lambda: self._over, pause_s)
                pause_s = min(2 * pause_s, AGAIN_S[1])
            else:
                self.trouble, pause_s = None, AGAIN_S[0]
                self._written(len(rows))

    def _due(self) -> list[Row]:
        """What to write now, once that is worth while; nothing: the work is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._urgent or self._over or len(self._rows) >= BATCH, PAUSE_S)
            if self._over or not self._rows:
                self._thread = None
                self._urgent = False
                self._changed.notify_all()
                return []
            return list(islice(self._rows, MOST))

    def _written(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                self._size -= len(self._rows.popleft()[2])
            self._mark(self._seq)
            self._urgent = self._urgent and bool(self._rows)
            self._changed.notify_all()


def recorded(event: ev.Event) -> str:
    """As JSON. A field that is too long is shortened; an input that is becomes the beginning of its JSON."""
    if isinstance(event, ev.End):  # what it says is said elsewhere, and its record is for the agent alone
        event = msgspec.structs.replace(event, text=None, raw=None)
    long = {
        name: _short(value) for name, value in msgspec.structs.asdict(event).items() if _may_be_long(value)
    }
    return msgspec.json.encode(msgspec.structs.replace(event, **long) if long else event).decode()


def _may_be_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > FIELD_BYTES // 4
    return isinstance(value, dict | list | tuple) and len(msgspec.json.encode(value)) > FIELD_BYTES


def _short(value: Any) -> Any:
    return elide(value if isinstance(value, str) else msgspec.json.encode(value).decode(), FIELD_BYTES)
