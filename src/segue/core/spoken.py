"""A message with its text, as another session is told of it: who spoke to whom, what their tools showed."""

from __future__ import annotations

import msgspec

from segue.core import notes
from segue.core.carried import Part, one_line
from segue.core.elide import elide
from segue.core.forms import without_forms
from segue.core.model import Message, Voice

RESERVED = frozenset({"user", "you", "note", "no", "role", "instructions", "prior"})
"""First words of headings that are ours: an agent of that name is called "agent user"."""
NAME_LENGTH = 40
TOOL_BYTES = 1_000
"""Of one tool's output."""
TOOLS_BYTES = 8_000
"""Of all outputs shown with one answer."""
TOOLS_SHOWN = 20


class ToolShown(msgspec.Struct, frozen=True):
    """A tool call, as far as it is told to somebody else."""

    name: str
    output: str = ""


class Unanswered(msgspec.Struct, frozen=True):
    """Why a user message has no answer. ``tools_run`` None: what was done for it is not known."""

    kind: str = ""
    tools_run: int | None = 0


class Spoken(msgspec.Struct, frozen=True):
    """A message and what it says now."""

    message: Message
    text: str
    tools: tuple[ToolShown, ...] = ()
    """What ran before an answer was given, or before it was interrupted."""
    unanswered: Unanswered | None = None
    """Of a user message whose turn came to nothing."""


def name(voice: Voice) -> str:
    """``codex``, ``claude (reviewer)``."""
    agent, role = one_line(voice.agent, NAME_LENGTH), one_line(voice.role, NAME_LENGTH)
    if agent.partition(" ")[0].rstrip(",").lower() in RESERVED:
        agent = f"agent {agent}"
    return f"{agent} ({role})" if role else agent


def heading(message: Message, voice: Voice) -> str:
    """Who spoke, as this voice is told."""
    own = message.voice == voice
    if message.sender == "user":
        return "user" if own else f"user, to {name(message.voice)}"
    return "you" if own else name(message.voice)


def parts_of(spoken: Spoken, voice: Voice, *, tools: bool = True) -> list[Part]:
    """One message as parts. What is said of a message later stands behind it, so that its own part stays."""
    who = heading(spoken.message, voice)
    if spoken.message.sender == "assistant":
        shown = _shown(spoken.tools, who) if tools else []
        return [*shown, Part(who, without_forms(spoken.text))]
    said, why = Part(who, spoken.text), spoken.unanswered
    if why is None:
        return [said]
    agent = "you" if spoken.message.voice == voice else name(spoken.message.voice)
    shown = _shown(spoken.tools, agent) if tools else []
    return [said, *shown, Part(notes.unanswered(why.kind, why.tools_run), notes.ONLY_IF)]


def correction(spoken: Spoken, voice: Voice) -> Part:
    """What a message reads now, for a session that has it in an older wording."""
    text = spoken.text if spoken.message.sender == "user" else without_forms(spoken.text)
    return Part(f"{heading(spoken.message, voice)}, edited: this replaces what you had", text)


def _shown(tools: tuple[ToolShown, ...], who: str) -> list[Part]:
    last = tools[-TOOLS_SHOWN:]
    limit = min(TOOL_BYTES, TOOLS_BYTES // max(1, len(last)))
    parts = [
        Part(f"{who} used {one_line(tool.name, NAME_LENGTH)}", elide(tool.output, limit)) for tool in last
    ]
    left_out = len(tools) - len(last)
    return [Part(f"{who} used {left_out} more tools"), *parts] if left_out else parts
