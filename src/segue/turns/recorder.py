"""Stores a turn's events without delaying the agent, whatever the store does.

Events wait in a bounded buffer until a thread has written them, in batches, with retries while the store is
away; tool calls are written at once. Events that do not fit into the buffer are counted, and a notice takes
their place: the stream file has them. Fragments of texts that also arrive whole are left out, and so is the
answer, which is stored with the messages. Of a text that was broken off, what arrived is stored at the end.
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
"""The most of one input or result: several times what is ever shown of it to another voice."""
TEXT_BYTES = 64_000
"""The most of one text or thought: people read them whole."""
BATCH = 50
"""With this many events, write without waiting for more."""
MOST = 1_000
"""The most events in one write."""
PAUSE_S = 0.05
RETRY_S = (0.1, 2.0)
"""The pause before a failed write is retried: at first, and at most."""
ROOM_ROWS = 20_000
ROOM_BYTES = 16 * 1024 * 1024

Row = tuple[int, int, str]


class Recorder:
    """Records events and passes them on. Call ``finish`` at the end, and ``give_up`` if that fails."""

    def __init__(self, store: Store, turn: str, listener: Listener | None, after: int = 0) -> None:
        """``after``: the number of the last event from before the run was parked."""
        self._store, self._turn, self._listener = store, turn, listener
        self.trouble: Exception | None = None
        """Why the last write failed; None if it succeeded."""
        self._changed = threading.Condition()
        self._rows: deque[Row] = deque()
        self._size = 0
        self._seq = after
        self._left_out = 0
        self._begun, self._session = "", ""
        """What has arrived of the text that is not whole yet; only the beginning of a very long one."""
        self._urgent = self._over = False
        self._thread: threading.Thread | None = None

    def __call__(self, event: ev.Event) -> None:
        if not isinstance(event, ev.TextDelta | ev.Heard):
            self._take(event)
        self._follow(event)
        if self._listener is not None:
            self._listener(event)

    def _follow(self, event: ev.Event) -> None:
        """Keep the text that is not whole yet."""
        match event:
            case ev.TextDelta():
                if len(self._begun) < TEXT_BYTES:
                    self._begun += event.text
            case ev.ToolCall(parent=None) if self._begun:  # of an agent that only prints fragments
                self._begun = self._begun.rstrip() + "\n\n"
            case ev.Session() if event.id != self._session:
                self._begun, self._session = "", event.id
            case ev.Text() | ev.Retry() | ev.End(ok=True):
                self._begun = ""

    def finish(self, within_s: float, *, answered: bool = False) -> bool:
        """Wait until everything is written, for at most ``within_s``. Returns whether it is.

        ``answered``: the last text was not broken off.
        """
        if self._begun.strip() and not answered:
            self._take(ev.Text(self._begun.rstrip()))
        self._begun = ""
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._rows, within_s)

    def give_up(self) -> int:
        """Stop writing. Returns how many events are not written."""
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
        """If events are missing, add a notice in the place of the last of them."""
        if self._left_out:
            notice = ev.Notice(f"{self._left_out:,} events are not recorded here: the store was away")
            self._left_out = 0
            self._add(seq, recorded(notice))

    def _add(self, seq: int, json: str) -> None:
        self._rows.append((seq, clock.now_ms(), json))
        self._size += len(json)

    def _write(self) -> None:
        """The thread's work, until there is nothing left to write."""
        pause_s = RETRY_S[0]
        while rows := self._due():
            try:
                self._store.record(self._turn, rows)
            except Exception as error:
                self.trouble = error
                with self._changed:
                    self._changed.wait_for(lambda: self._over, pause_s)
                pause_s = min(2 * pause_s, RETRY_S[1])
            else:
                self.trouble, pause_s = None, RETRY_S[0]
                self._written(len(rows))

    def _due(self) -> list[Row]:
        """Wait for a batch and return it; empty if the work is done."""
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
    """The event as JSON. Long fields are shortened; a long input is replaced by the beginning of its JSON."""
    if isinstance(event, ev.End):  # its text is stored with the messages, its record is for the adapter
        event = msgspec.structs.replace(event, text=None, raw=None)
    most = TEXT_BYTES if isinstance(event, ev.Text | ev.Thinking) else FIELD_BYTES
    fields = msgspec.structs.asdict(event).items()
    long = {name: _short(value, most) for name, value in fields if _may_be_long(value)}
    return msgspec.json.encode(msgspec.structs.replace(event, **long) if long else event).decode()


def _may_be_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > FIELD_BYTES // 4
    return isinstance(value, dict | list | tuple) and len(msgspec.json.encode(value)) > FIELD_BYTES


def _short(value: Any, most: int) -> Any:
    return elide(value if isinstance(value, str) else msgspec.json.encode(value).decode(), most)
