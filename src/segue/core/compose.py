"""What is sent, put together from the message and the instructions."""

from __future__ import annotations

import msgspec

from segue.core.request import Capabilities


class Composed(msgspec.Struct, frozen=True):
    prompt: str
    system_prompt: str | None
    """Given to the CLI as such; otherwise the instructions already ride in the prompt."""


def compose(message: str, instructions: str | None, can: Capabilities) -> Composed:
    """Instructions go where they stay with the session; else in the message, before it."""
    if instructions is None or not instructions.strip():
        return Composed(message, None)
    if can.system_prompt == "session":
        return Composed(message, instructions)
    return Composed(f"<instructions>\n{instructions.strip()}\n</instructions>\n\n{message}", None)
