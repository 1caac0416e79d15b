"""What the daemon tells a command line about the turn that it runs for it, line by line.

The command line loads this to show the turn, so it loads nothing that only a process that runs turns needs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from segue.core import events as ev
from segue.core.turn import Turn


class Frame(msgspec.Struct, frozen=True, tag_field="frame", omit_defaults=True):
    """One line of the answer."""


class Ready(Frame, frozen=True, tag="ready"):
    """The turn can start; what the caller shows while it runs."""

    run: str
    agent: str
    label: str
    mentions: tuple[str, ...] = ()
    model_from: str | None = None
    directory: str | None = None


class Notice(Frame, frozen=True, tag="notice"):
    text: str


class Happened(Frame, frozen=True, tag="event"):
    event: ev.AnyEvent


class Ended(Frame, frozen=True, tag="ended"):
    """The turn is over, and follows on the next line as ``segue run --json`` prints it.

    ``number``: the n of ``#n`` of the message, if it has one."""

    exit: int
    number: int | None = None


class Refused(Frame, frozen=True, tag="refused"):
    """The call cannot be done, or failed outside of the turn: what the caller's own process would raise."""

    message: str
    code: str
    exit_code: int


ELSEWHERE = "elsewhere"
"""The code of a call that the caller has to do itself."""
AnyFrame = Ready | Notice | Happened | Ended | Turn | Refused
Tell = Callable[[AnyFrame], None]
