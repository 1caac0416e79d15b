"""What flows need from the rest of the program, and ``app`` provides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from segue.core.budget import ReachedBudget
from segue.core.laws import Consent
from segue.core.request import Briefing, FlowPlace
from segue.core.turn import Turn
from segue.core.verdicts import Said
from segue.runner.attempt import Cancel
from segue.turns.request import Options


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Whose words the prompt of a turn repeats, and who wants them to reach its account."""

    runs: tuple[str, ...] | None = None
    """The words of these runs, and of whom they were given words. None: of all turns of the flow that have
    begun."""
    marks: tuple[str, ...] = ()
    """Words with these marks, too."""
    consent: Consent = "none"
    notices: tuple[Said, ...] = ()
    """What the user is told about it when the turn begins."""


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
    given: Given = Given()
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

    def forbidden(self, options: Options, marks: Sequence[str], consent: Consent) -> str | None:
        """Why words with these marks may not reach the agent and account of a turn with these options; None:
        they may."""
        ...

    async def run(self, order: TurnOrder, cancel: Cancel) -> Turn:
        """Run the turn to its end."""
        ...
