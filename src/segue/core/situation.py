"""Everything a decision looks at: the checks see this and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from segue.core.cut import Cut
from segue.core.model import History, Host, Pin, Voice, Workdir
from segue.core.request import Runtime
from segue.core.turn import Mode

RUNGS: tuple[Mode, ...] = ("resume", "branch", "graft", "replay", "recap", "fresh")
"""The ladder, from the top."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation is carried from turn to turn: the configuration's section ``continuity``."""

    enabled: bool = True
    """False: replay on every turn."""
    modes: tuple[Mode, ...] = ("resume", "branch", "replay", "recap", "fresh")
    graft: Literal["off", "account", "any"] = "off"
    history: History = "all"
    ttl_minutes: Annotated[int, Meta(ge=0)] = 0
    """0: a session does not grow too old."""
    context_threshold: Annotated[float, Meta(gt=0, le=1)] = 0.80
    max_session_mb: Annotated[int, Meta(ge=1)] = 50
    retire_after: Annotated[int, Meta(ge=1)] = 2
    on_model_change: Literal["resume", "replay"] = "resume"

    @property
    def ttl_ms(self) -> int:
        return self.ttl_minutes * 60_000

    @property
    def max_session_bytes(self) -> int:
        return self.max_session_mb * 1024 * 1024


ASSUMED_WINDOW = 200_000
"""Tokens, where no turn has told the model's window yet."""
BYTES_PER_TOKEN = 3.5
FRAME_BYTES = 24
"""What a message carried as text has around it, about."""


class File(msgspec.Struct, frozen=True):
    """The native session on disk. ``present`` None: nobody can tell (the format is not known)."""

    present: bool | None = None
    size: int = 0
    end: str | None = None
    kept: bool = False
    """It is not here, but a copy of ours is, and will be put in its place."""
    unrestored: str | None = None
    """Why that could not be done."""


class FailingPair(msgspec.Struct, frozen=True):
    """Two versions of a program: what one of them wrote, the other cannot resume."""

    distribution: str
    writer: str
    reader: str
    why: str


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The facts. Values only: no clock, no disk, no environment behind them."""

    policy: Policy
    flow: bool = False
    """The voice is a role of a flow: under pressure it hands over instead of going on."""
    label: str
    """The agent's name in sentences."""
    voice: Voice
    account: str = ""
    runtime: Runtime
    failing_pairs: tuple[FailingPair, ...] = ()
    """Of the agent's versions."""
    switched_off: dict[str, str] = {}
    """Capabilities that this runtime turned out not to have, with the reason."""
    blank: str | None = None
    """Why nothing of the past shall be carried."""
    fresh_session: bool = False
    pin: Pin | None = None
    spoke: bool = False
    """This voice answered before, though no session of it is known."""
    others: tuple[str, ...] = ()
    """Who else has a session in this conversation."""
    hidden: int = 0
    """Messages behind the account's wall."""
    broken: str = ""
    """In words: what became of the first message that the session holds and the view does not."""
    cut: Cut
    """Where the session parts from the view; without a session all of the view is text."""
    view_messages: int
    """Of the view, the new one included."""
    view_bytes: int
    new_bytes: int
    """The new message alone."""
    too_long: frozenset[Mode] = frozenset()
    """Ways that were tried, and whose prompt turned out to be longer than the CLI takes."""
    file: File = File()
    workdir: Workdir
    model: str | None = None
    login: str | None = None
    offers: tuple[str, ...] | None = None
    """What of the request shapes the set of tools that the model is shown, if the session goes on."""
    host: Host
    window: int | None = None
    busy: str | None = None
    now_ms: int = 0

    @property
    def earlier(self) -> int:
        """How many messages of the view come before the new one."""
        return self.view_messages - 1


def tokens_of(size: int) -> int:
    """An estimate; what the CLI reports is the truth."""
    return round(size / BYTES_PER_TOKEN)
