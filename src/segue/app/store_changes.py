"""Wakes tasks of the event loop when the store may have changed."""

from __future__ import annotations

import asyncio

from segue.store.store import Store
from segue.store.watch import BUSY_PAUSE_S, IDLE_PAUSE_S, Watch


class StoreChanges:
    """One watch of the store for all tasks that wait, while there is one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: set[asyncio.Event] = set()
        self._watch: Watch | None = None
        self._told = False

    def open(self) -> asyncio.Event:
        """An event that is set after every change, sometimes without a reason. Close it at the end."""
        event = asyncio.Event()
        self._waiting.add(event)
        if self._watch is None:
            loop = asyncio.get_running_loop()
            self._watch = self._store.watch(lambda: self._tell(loop))
            self._watch.start()
        return event

    def close(self, event: asyncio.Event) -> None:
        self._waiting.discard(event)
        if not self._waiting and self._watch is not None:
            watch, self._watch = self._watch, None
            watch.close()

    def hurry(self, busy: bool) -> None:
        """Whether a run of another process is followed: its changes are wanted soon."""
        if self._watch is not None:
            self._watch.pause_s = BUSY_PAUSE_S if busy else IDLE_PAUSE_S

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called in any thread."""
        if not self._told:
            self._told = True
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the loop has ended
                self._told = False

    def _wake(self) -> None:
        self._told = False
        for event in self._waiting:
            event.set()
