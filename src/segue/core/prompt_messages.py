"""Messages with their texts, as another session is told of them: who spoke to whom, what their tools showed.

Question forms are taken out of earlier answers: they were answered, and must not be answered again. A form is
an element of its own, or a fenced block of JSON that puts questions to the user. What stands in other fenced
blocks is code that somebody wrote, and stays.
"""

from __future__ import annotations

import re

import msgspec

from segue.core import prompt_parts
from segue.core.model import Message, Voice
from segue.core.prompt_parts import Part, elide, one_line

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


class MessageText(msgspec.Struct, frozen=True):
    """A message and what it says now."""

    message: Message
    text: str
    tools: tuple[ToolShown, ...] = ()
    """What ran before an answer was given, or before it was interrupted."""
    unanswered: Unanswered | None = None
    """Of a user message whose turn came to nothing."""


def speaker_name(voice: Voice) -> str:
    """``codex``, ``claude (reviewer)``."""
    agent, role = one_line(voice.agent, NAME_LENGTH), one_line(voice.role, NAME_LENGTH)
    if agent.partition(" ")[0].rstrip(",").lower() in RESERVED:
        agent = f"agent {agent}"
    return f"{agent} ({role})" if role else agent


def message_heading(message: Message, voice: Voice) -> str:
    """Who spoke, as this voice is told."""
    own = message.voice == voice
    if message.sender == "user":
        return "user" if own else f"user, to {speaker_name(message.voice)}"
    return "you" if own else speaker_name(message.voice)


def message_parts(spoken: MessageText, voice: Voice, *, tools: bool = True) -> list[Part]:
    """One message as parts. What is said of a message later stands behind it, so that its own part stays."""
    who = message_heading(spoken.message, voice)
    if spoken.message.sender == "assistant":
        shown = _shown(spoken.tools, who) if tools else []
        return [*shown, Part(who, without_question_forms(spoken.text))]
    said, why = Part(who, spoken.text), spoken.unanswered
    if why is None:
        return [said]
    agent = "you" if spoken.message.voice == voice else speaker_name(spoken.message.voice)
    shown = _shown(spoken.tools, agent) if tools else []
    return [said, *shown, Part(prompt_parts.unanswered_note(why.kind, why.tools_run), prompt_parts.ONLY_IF)]


def correction_part(spoken: MessageText, voice: Voice) -> Part:
    """What a message reads now, for a session that has it in an older wording."""
    text = spoken.text if spoken.message.sender == "user" else without_question_forms(spoken.text)
    return Part(f"{message_heading(spoken.message, voice)}, edited: this replaces what you had", text)


def _shown(tools: tuple[ToolShown, ...], who: str) -> list[Part]:
    last = tools[-TOOLS_SHOWN:]
    limit = min(TOOL_BYTES, TOOLS_BYTES // max(1, len(last)))
    parts = [
        Part(f"{who} used {one_line(tool.name, NAME_LENGTH)}", elide(tool.output, limit)) for tool in last
    ]
    left_out = len(tools) - len(last)
    return [Part(f"{who} used {left_out} more tools"), *parts] if left_out else parts


ASKED = "(asked the user a question; it was answered below)"

_OPENING = (
    r"(?mi)^[ \t]*(?P<fence>`{3,}+|~{3,}+)[^\n`]*$"
    r"|<(?P<element>question-form)(?=[\s>])[^<>]*>"
    r"|^[ \t]*<(?P<page>form)(?=[\s>])[^<>]*>"
)
"""``<form>`` is also what web pages are made of: it counts only where a line begins with it."""
_HINTS = ("question-form", "<form", "askuserquestion", '"questions"')


def without_question_forms(text: str) -> str:
    """The text with one line in the place of each form."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    kept: list[str] = []
    done = at = 0
    open_ended: set[str] = set()
    openings = re.compile(_OPENING)
    while opening := openings.search(text, at):
        end = _end(text, opening, open_ended)
        at = opening.end() if end is None else end
        if end is not None and _is_form(text[opening.start() : end], opening):
            kept += (text[done : opening.start()], ASKED)
            done = end
    return "".join((*kept, text[done:]))


def _end(text: str, opening: re.Match[str], open_ended: set[str]) -> int | None:
    """Where it ends; None when it never does. ``open_ended``: what was looked for in vain."""
    fence = opening["fence"]
    if fence:
        close = re.compile(rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        closing = close.search(text, opening.end())
        return closing.end() if closing else len(text)
    name = (opening["element"] or opening["page"]).lower()
    found = None if name in open_ended else re.compile(rf"(?i)</{name}\s*>").search(text, opening.end())
    if found is None:
        open_ended.add(name)
        return None
    return found.end()


def _is_form(block: str, opening: re.Match[str]) -> bool:
    if not opening["fence"]:
        return True
    body = block[opening.end() - opening.start() :].lstrip()
    asks = "AskUserQuestion" in block or ('"questions"' in body and '"options"' in body)
    return asks and body.startswith(("{", "["))
