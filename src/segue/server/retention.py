"""Deletes what is no longer needed, soon after the start and then daily: old sessions that Segue made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from segue.server.log import LOG, log_failure

if TYPE_CHECKING:
    from segue.app.segue import Segue

FIRST_S = 60.0
"""How long after the start: a daemon that is started for one turn has better things to do."""
EVERY_S = 24 * 3600.0


class Retention:
    """A part of the daemon. ``[retention] days`` says what is old; sessions of others are never deleted."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retention")

    async def drain(self, limit_s: float) -> None:
        if self._task is not None:
            self._task.cancel()

    def runs(self) -> Mapping[str, int]:
        return {}

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            await self.prune()
            await asyncio.sleep(EVERY_S)

    async def prune(self) -> None:
        """Delete what ``segue sessions prune`` would delete. After a failure, the next day tries again."""
        try:
            done = await self._segue.sessions.prune(dry_run=False)
        except Exception as error:
            log_failure(error)
            return
        if done.sessions:
            LOG.info("deleted %d old sessions, %.1f MB", len(done.sessions), done.freed / 1e6)
