"""What flows need from the rest of the program, and ``app`` provides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from segue.core.budget import ReachedBudget
from segue.core.request import Briefing, FlowPlace
from segue.core.turn import Turn
from segue.runner.attempt import Cancel
from segue.turns.request import Options


class TurnOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that a flow wants to have run, exactly once."""

    run: str
    """The id of the run."""
    may_be_begun: bool
    """An earlier entry of the flow may have begun it: then it is followed, or settled."""
    run_key: str
    conversation: str
    text: str
    options: Options
    place: FlowPlace
    briefing: Briefing | None = None
    retry_of: str | None = None
    """The run whose message is run again, if it can be; otherwise the text is a new message."""


class TurnPort(Protocol):
    """Runs turns, in whatever way the process does that."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of programs that a flow runs itself."""
        ...

    @property
    def git_home(self) -> Path:
        """Where our own git directories are."""
        ...

    def reached(self, run: str) -> ReachedBudget | None:
        """The budget that did not cover the run, if it never began because of that."""
        ...

    async def run(self, order: TurnOrder, cancel: Cancel) -> Turn:
        """Run the turn to its end."""
        ...
