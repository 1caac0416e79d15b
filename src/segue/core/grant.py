"""What an agent may do and spend in a turn: as it was said to a voice, and as it was in the end. Values."""

from __future__ import annotations

import msgspec

from segue.core.request import Posture


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a voice was told it may do; its later turns go by it. What nobody said is left out."""

    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    budget_usd: float | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What held in a turn, wherever it came from."""

    permission: Posture = "default"
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    questions: bool | None = None
    """Whether the agent may ask the user; None: it cannot."""
    remembered: tuple[str, ...] = ()
    """Which of these were not said anew, but before, to the same agent in the same role."""
