"""Waits until one of several files has grown, by polling their sizes.

The pause between two polls is short after something was written and then gets longer. A model takes longer
for a word than the longest pause. Polling works on every file system and needs no limited resource of the
operating system.

Nothing is missed in this order: make a ``FileWatch``, read to the end, ``wait``, read to the end, … What was
written between two waits is seen by the first poll of the next one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from segue.system.loop import anyio

FIRST_PAUSE_S = 0.002
LONGER_BY = 1.5
"""So what follows the last growth is seen late by half of the time between the two at most."""
PAUSE_S = 0.02
"""The longest pause while the files are being written to."""
IDLE_PAUSE_S = 0.05
"""The longest pause if nothing was written for ``IDLE_AFTER_S`` seconds."""
IDLE_AFTER_S = 2.0
BACKSTOP_S = 1.0
"""``wait`` returns after this time in any case: a file may have been emptied and filled to the same size."""

State = list[tuple[int, int] | None]


class FileWatch:
    """Watches ``paths`` from now on."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._state = self._look()
        self._grew_at = time.monotonic()
        self._pause = FIRST_PAUSE_S

    async def wait(self) -> None:
        """Return when a file was written to since the last return; sometimes without a reason."""
        until = time.monotonic() + BACKSTOP_S
        while time.monotonic() < until:
            await anyio.sleep(self._pause)
            state, now = self._look(), time.monotonic()
            if state != self._state:
                self._state, self._grew_at, self._pause = state, now, FIRST_PAUSE_S
                return
            longest = PAUSE_S if now - self._grew_at < IDLE_AFTER_S else IDLE_PAUSE_S
            self._pause = min(self._pause * LONGER_BY, longest)

    def _look(self) -> State:
        return [_size_and_time(path) for path in self._paths]


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
