"""What lives as long as the daemon and is not a request, such as the engine that runs queued turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from segue.app.segue import Segue


class Lifecycle(Protocol):
    """A part of the daemon with a beginning and an end of its own."""

    async def start(self) -> None:
        """Called before the daemon listens."""

    async def drain(self, limit_s: float) -> None:
        """Finish what is running within that time; what is not finished then is left resumable.

        Called once, when the daemon no longer accepts connections. New work is refused from then on.
        """

    def runs(self) -> Mapping[str, int]:
        """How many runs there are in each state that is not an end. The daemon is idle without any."""


def parts_of(segue: Segue) -> dict[str, Lifecycle]:
    """The parts of a daemon, in the order in which they start. A handler finds them in ``Call.state``."""
    from segue.server.engine_part import EnginePart
    from segue.server.retention import Retention

    return {"engine": EnginePart(segue), "retention": Retention(segue)}
