"""The engine as a part of the daemon: started before it listens, drained before it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.app.segue import Segue


class EnginePart:
    """Runs what is queued. What still runs when the time is over is left to the next daemon."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def start(self) -> None:
        await self._segue.service.start()

    async def drain(self, limit_s: float) -> None:
        await self._segue.service.engine.drain(limit_s)

    def runs(self) -> Mapping[str, int]:
        engine = self._segue.service.engine
        counts = {"running": len(engine.running), "waiting": engine.waiting}
        return {state: count for state, count in counts.items() if count}
