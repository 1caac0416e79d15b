"""Waits until one of some files has grown, by looking at their sizes again and again.

The pause between two looks is short after something was written and gets longer from look to look. A model
takes longer for a word than the longest of them. Looking works on every file system and needs nothing from
the operating system that could run out.

Nothing that is written is missed if the order is: make a ``FileWatch``, read to the end, ``wait``, read to
the end, … What grew between two waits is seen by the first look of the next one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import anyio

FIRST_PAUSE_S = 0.005
LONGER_BY = 1.3
PAUSE_S = 0.02
"""The longest pause while the files are being written to."""
IDLE_PAUSE_S = 0.05
"""The longest pause when nothing was written for ``IDLE_AFTER_S`` seconds."""
IDLE_AFTER_S = 2.0
BACKSTOP_S = 1.0
"""After so long ``wait`` returns in any case. A file may have been emptied and filled again meanwhile."""

State = list[tuple[int, int] | None]


class FileWatch:
    """Watches ``paths`` from now on."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._state = self._look()
        self._grew_at = time.monotonic()
        self._pause = FIRST_PAUSE_S

    async def wait(self) -> None:
        """Return when a file was written to since the last return; at times also for nothing."""
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
