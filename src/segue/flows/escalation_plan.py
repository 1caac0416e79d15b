"""What an escalation is made of: its tiers, its policy and its cooldowns, with the texts of its prompts.

A plan is complete: it is recorded with the flow, so a file that changes later changes nothing about it.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from segue.core.outcome import Kind
from segue.core.request import Posture

Positive = Annotated[int, Meta(ge=1)]
Above = Annotated[float, Meta(gt=0)]
NEVER: tuple[Kind, ...] = (
    *("rate_limited", "network", "model_error", "refused", "session_busy", "session_rejected", "auth"),
    *("untrusted", "cancelled", "killed", "not_installed", "unsettled", "forbidden"),
)
"""Failures that no tier can do anything about: limits, networks, logins, what the model service declines, and
what came from outside."""
MAY: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind not in NEVER)
"""Failures that can escalate."""
HAND_OFF_BYTES = 24_000


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """``[policy]``: what holds for the whole chain."""

    max_tier: Positive | None = None
    """The highest tier that is started."""
    budget: Above | None = None
    """What all tiers together may cost, in dollars. If it does not cover the next turn, the flow asks."""
    escalate_on: tuple[str, ...] = MAY
    """The kinds of failure after which the next tier is started."""
    signal: Literal["json", "text", "exit_code"] = "json"
    """How it is known whether a tier escalates."""
    text: str = "ESCALATE"
    """With ``signal = "text"``: a line of the answer that begins with this; the rest of it is the reason."""
    command: str = ""
    """With ``signal = "exit_code"``: a command that is run after each tier. 0: all is well; 2: the next tier
    goes on, and the last line that it prints is the reason. Anything else ends the flow as failed."""
    command_timeout: Above = 600
    """In seconds."""
    hand_off_bytes: Annotated[int, Meta(ge=1000)] = HAND_OFF_BYTES
    """The largest hand-off."""

    def __post_init__(self) -> None:
        for kind in self.escalate_on:
            if kind not in MAY:
                raise ValueError(f'has "{kind}", which cannot escalate; it takes {", ".join(MAY)}')
        if not self.text.strip():
            raise ValueError("text cannot be empty")
        if (self.signal == "exit_code") != bool(self.command.strip()):
            raise ValueError('signal = "exit_code" and command belong together')


class Cooldown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """``[[cooldown]]``: how often something may be done to the same thing within some hours."""

    kind: str
    limit: Positive
    hours: Above
    match: tuple[str, ...] = ()
    """Tool calls that count, as ``TOOL: TEXT``: ``{key}`` is a word, ``*`` is anything."""
    deny: Annotated[tuple[str, ...], Meta(min_length=1)]
    """The tools that a tier does without once the limit is reached. ``{key}`` is what it was reached for."""

    def __post_init__(self) -> None:
        for each in self.match:
            if not each.partition(":")[0].strip() or not each.partition(":")[2].strip():
                raise ValueError(f'match has "{each}", which is not TOOL: TEXT')

    @property
    def ms(self) -> int:
        return round(self.hours * 3_600_000)


class Tier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tier. ``prompt`` and ``full`` are texts here, no longer names of files."""

    name: str
    human: bool = False
    """A person: the flow asks, and waits for the answer."""
    question: str = ""
    """What a person is asked."""
    agent: str | None = None
    account: str | None = None
    model: str | None = None
    prompt: str = ""
    """For a session that is continued."""
    full: str = ""
    """For a new session."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    permission: Posture = "default"
    budget: float | None = None
    timeout: float | None = None
    max_turns: int | None = None
    carry: bool = False
    """Its hand-off may have what was said under another account. The file that says so is trusted."""


class EscalationPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it. ``name``: whose cooldowns they are."""

    name: str
    tiers: tuple[Tier, ...]
    environment: str = ""
    policy: Policy = Policy()
    cooldowns: tuple[Cooldown, ...] = ()
    dry_run: bool = False

    def permission(self, tier: Tier) -> Posture:
        """What the tier's agent may do; in a dry run only look."""
        return "read" if self.dry_run else tier.permission

    def allowed(self, tier: Tier) -> tuple[str, ...]:
        """The tools that the tier is allowed by name; in a dry run those of the first tier, if that one only
        looks, with the same agent."""
        first = self.tiers[0]
        if not self.dry_run:
            return tier.allow
        return first.allow if (first.permission, first.agent) == ("read", tier.agent) else ()

    @property
    def highest(self) -> int:
        """The number of the last tier that is started."""
        return min(self.policy.max_tier or len(self.tiers), len(self.tiers))
