"""The words for flows: the states of a flow and of its steps, what a flow waits for, what it asks."""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.core.budget import ReachedBudget

FlowState = Literal["running", "needs_you", "parked", "paused", "done", "failed", "cancelled"]
"""``running``: somebody runs it, or has to. ``needs_you``: it waits for an answer. ``parked``: it waits for a
time. ``paused``: somebody stopped it for now."""
UNFINISHED: tuple[FlowState, ...] = ("running", "needs_you", "parked", "paused")
Needs = Literal["budget", "human", "question", "version"]
"""What a flow waits for: more money, a person's work, an answer; or it has no code for its version."""
StepKind = Literal["step", "turn", "ask", "wait"]
StepState = Literal["running", "waiting", "done", "failed"]


class FlowQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a flow asks."""

    text: str
    needs: Needs = "question"
    choices: tuple[str, ...] = ()
    """The answers that are accepted; empty: any."""
    asked: int = 0
    """When, in milliseconds since 1970."""
    budget: ReachedBudget | None = None
    """The budget that does not cover the next turn."""


class TreeUse(msgspec.Struct, frozen=True):
    """That another flow has a working tree. ``flow``: which one; null: that is known to its process only."""

    flow: str | None
    why: str
    """In words, with what can be done."""
