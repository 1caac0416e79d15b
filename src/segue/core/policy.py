"""What the configuration says about continuity, in the units the checks count in."""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.core.model import History
from segue.core.turn import Mode

RUNGS: tuple[Mode, ...] = ("resume", "branch", "graft", "replay", "recap", "fresh")
"""The ladder, from the top."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    modes: tuple[Mode, ...] = ("resume", "branch", "replay", "recap", "fresh")
    graft: Literal["off", "account", "any"] = "off"
    history: History = "all"
    ttl_ms: int = 0
    """0: a session does not grow too old."""
    context_threshold: float = 0.80
    max_session_bytes: int = 50 * 1024 * 1024
    retire_after: int = 2
    on_model_change: Literal["resume", "replay"] = "resume"
    flow: bool = False
    """A role of a flow: under pressure it hands over instead of going on."""
