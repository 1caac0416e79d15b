"""Everything that a decision depends on: the checks see this and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from segue.core.cut import Cut
from segue.core.model import History, Host, Pin, Voice, Workdir
from segue.core.request import Runtime
from segue.core.turn import Mode
from segue.core.usage import Limit, Pays
from segue.core.verdicts import Said

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
    """0: no limit."""
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
"""Tokens, if the model's window is not known yet."""
BYTES_PER_TOKEN = 3.5
FRAME_BYTES = 24
"""About how much the heading of a message carried as text adds."""


class File(msgspec.Struct, frozen=True):
    """The native session on disk. ``present`` None: unknown, because the format is not known."""

    present: bool | None = None
    size: int = 0
    end: str | None = None
    kept: bool = False
    """It is missing, but we have a copy that will be restored."""
    unrestored: str | None = None
    """Why the copy could not be restored."""


class FailingPair(msgspec.Struct, frozen=True):
    """Two versions of a program: the reader cannot resume what the writer wrote."""

    distribution: str
    writer: str
    reader: str
    why: str


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The facts: plain values, without clock, disk or environment."""

    policy: Policy
    flow: bool = False
    """The voice is a role of a flow: under pressure it hands over instead of continuing."""
    full: bool = False
    """The flow gives the whole prompt: what was said before is not sent as text."""
    label: str
    """The agent's name in sentences."""
    voice: Voice
    account: str = ""
    runtime: Runtime
    failing_pairs: tuple[FailingPair, ...] = ()
    """Known for the agent's versions."""
    switched_off: dict[str, str] = {}
    """Capabilities that this runtime turned out not to have, with the reason."""
    blank: str | None = None
    """Why no history is carried over."""
    fresh_session: bool = False
    pin: Pin | None = None
    lent: str = ""
    """The role whose session it is, if this one gets a fork of it."""
    spoke: bool = False
    """This voice answered before, but has no known session."""
    others: tuple[str, ...] = ()
    """Other voices that have a session in this conversation."""
    hidden: int = 0
    """Messages behind the account's wall."""
    broken: Said | None = None
    """What happened to the first message that the session holds and the view does not."""
    cut: Cut
    """Where the session diverges from the view; without a session all of the view is text."""
    view_messages: int
    """How many messages the view has, including the new one."""
    view_bytes: int
    new_bytes: int
    """The size of the new message alone."""
    carried_only: bool = False
    """All that comes before the new message was carried over from another account."""
    too_long: frozenset[Mode] = frozenset()
    """Modes whose prompt turned out to be longer than the CLI accepts."""
    file: File = File()
    workdir: Workdir
    model: str | None = None
    login: str | None = None
    moved: Said | None = None
    """The session is in another home than the account has now."""
    offers: tuple[str, ...] | None = None
    """What in the request determines the tools that the model is shown, if the session is continued."""
    host: Host
    window: int | None = None
    busy: str | None = None
    limits: tuple[Limit, ...] = ()
    """The account's usage limits, as they were last seen."""
    pays: Pays = "unknown"
    """What will pay for the turn."""
    paid: Pays = "unknown"
    """What paid for the voice's last turn here."""
    now_ms: int = 0
    asked_ms: int = 0
    """When the turn was first wanted, if it has waited since; 0: now."""

    @property
    def failing_pair(self) -> str:
        """Why this version cannot resume the session; empty if nothing is known against it."""
        wrote, reads = (self.pin.version if self.pin else None) or "", self.runtime.version or ""
        for pair in self.failing_pairs:
            same = self.runtime.distribution == pair.distribution
            if same and _is(wrote, pair.writer) and _is(reads, pair.reader):
                return pair.why
        return ""

    @property
    def earlier(self) -> int:
        """How many messages of the view come before the new one."""
        return self.view_messages - 1


def _is(version: str, wanted: str) -> bool:
    return version == wanted or version.startswith(wanted + ".")


def tokens_of(size: int) -> int:
    """An estimate; what the CLI reports is the truth."""
    return round(size / BYTES_PER_TOKEN)
