"""The parts of the daemon that are no requests and live as long as it does: the engine, and retention."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from segue.app.segue import Segue


class Part(Protocol):
    """A part of the daemon with a beginning and an end of its own."""

    async def start(self) -> None:
        """Called before the daemon listens."""

    async def drain(self, limit_s: float) -> None:
        """Finish what is running within that time; what is not finished then is left resumable.

        Called once, when the daemon no longer accepts connections. New work is refused from then on.
        """

    def runs(self) -> Mapping[str, int]:
        """How many runs this process has: those that it runs, and those that wait for it. The daemon is idle
        without any."""


class EnginePart:
    """Runs what is queued. What still runs when the time is over is left to the next daemon."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def start(self) -> None:
        await self._segue.service.start()

    async def drain(self, limit_s: float) -> None:
        await self._segue.service.end(limit_s)

    def runs(self) -> Mapping[str, int]:
        return self._segue.service.runs()


def parts_of(segue: Segue, answered: asyncio.Event) -> dict[str, Part]:
    """The parts of a daemon, in the order in which they start. A handler finds them in ``Call.state``.

    ``answered``: is set when somebody has got a first answer."""
    from segue.server.retention import Retention

    return {"engine": EnginePart(segue), "retention": Retention(segue, answered)}
