"""Deletes what is no longer needed, at the start and then daily: old sessions that Segue made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from segue.server.log import LOG, log_failure
from segue.system import clock

if TYPE_CHECKING:
    from segue.app.segue import Segue

FIRST_S = 10.0
"""How long the first time waits for a first answer: that comes before housekeeping."""
EVERY_MS = 24 * 3_600_000
LOOK_S = 300.0
"""How often the clock is looked at: a machine that slept does not sleep longer than a day."""


class Retention:
    """A part of the daemon. ``[retention] days`` says what is old; sessions of others are never deleted."""

    def __init__(self, segue: Segue, answered: asyncio.Event | None = None) -> None:
        """``answered``: is set when somebody has got a first answer."""
        self._segue, self._answered = segue, answered or asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retention")

    async def drain(self, limit_s: float) -> None:
        if self._task is not None:
            self._task.cancel()

    def runs(self) -> Mapping[str, int]:
        return {}

    async def _run(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                await self._answered.wait()
        last_ms = None
        while True:
            now_ms = clock.now_ms()
            if last_ms is None or not last_ms <= now_ms < last_ms + EVERY_MS:
                last_ms = now_ms
                await self.prune()
            await asyncio.sleep(LOOK_S)

    async def prune(self) -> None:
        """Delete what ``segue sessions prune`` would delete. After a failure, the next day tries again."""
        try:
            done = await self._segue.sessions.prune(dry_run=False)
        except Exception as error:
            log_failure(error)
            return
        if done.sessions:
            LOG.info("deleted %d old sessions, %.1f MB", len(done.sessions), done.freed / 1e6)
