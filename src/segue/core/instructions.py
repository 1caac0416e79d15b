"""Standing instructions (system text, skills, project documents): when they are due, and where they go."""

from __future__ import annotations

import msgspec

from segue.core.model import Instructions
from segue.core.request import Capabilities


class Placed(msgspec.Struct, frozen=True):
    """Where the instructions of a turn go: into its message, or to the CLI as a system prompt."""

    in_message: str | None = None
    system_prompt: str | None = None


def place(instructions: str | None, can: Capabilities, *, fresh: bool) -> Placed:
    """``fresh``: the turn begins a native session. A system prompt is used only where it stays with one."""
    if instructions is None or not instructions.strip():
        return Placed()
    if fresh and can.system_prompt == "session":
        return Placed(system_prompt=instructions)
    return Placed(in_message=instructions.strip())


def instructions_due(
    wanted_hash: str | None, pin_instructions: Instructions | None, cut_at: int, compacted: bool
) -> bool:
    """Once per native session; again when they changed, were cut off, or may be gone from a summary.

    ``cut_at``: how many deliveries the session keeps. ``compacted``: since they were given, its history was
    replaced by a summary (a system prompt outlives that: then the caller says false).
    """
    if wanted_hash is None:
        return False
    if pin_instructions is None or pin_instructions.hash != wanted_hash:
        return True
    return compacted or pin_instructions.at >= cut_at
