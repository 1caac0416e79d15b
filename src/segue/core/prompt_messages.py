"""Messages as text for a session that does not have them: who spoke to whom, and what their tools showed.

Question forms are removed from earlier answers: they were answered, and must not be answered a second time. A
form is a separate element, or a fenced block of JSON with questions to the user. Other fenced blocks are code
and stay.
"""

from __future__ import annotations

import re

import msgspec

from segue.core import prompt_parts
from segue.core.model import Message, Voice
from segue.core.prompt_parts import Part, elide, one_line

RESERVED = frozenset({"user", "you", "note", "no", "role", "instructions", "prior"})
"""First words of our own headings: an agent with the name "user" is called "agent user"."""
NAME_LENGTH = 40
TOOL_BYTES = 1_000
"""The most for one tool's output."""
TOOLS_BYTES = 8_000
"""The most for all outputs shown with one answer."""
TOOLS_SHOWN = 20


class ToolShown(msgspec.Struct, frozen=True):
    """A tool call, as far as another session is told about it."""

    name: str
    output: str = ""


class Unanswered(msgspec.Struct, frozen=True):
    """Why a user message has no answer. ``tools_run`` None: it is not known whether tools ran."""

    kind: str = ""
    tools_run: int | None = 0


class MessageText(msgspec.Struct, frozen=True):
    """A message with its current text."""

    message: Message
    text: str
    tools: tuple[ToolShown, ...] = ()
    """What ran before an answer was given, or before it was interrupted."""
    unanswered: Unanswered | None = None
    """Set for a user message whose turn gave no answer."""
    attached: tuple[str, ...] = ()
    """A remark for each attachment of a user message: which file it is, or why it was not sent."""


def speaker_name(voice: Voice) -> str:
    """``codex``, ``claude (reviewer)``."""
    agent, role = one_line(voice.agent, NAME_LENGTH), one_line(voice.role, NAME_LENGTH)
    if agent.partition(" ")[0].rstrip(",").lower() in RESERVED:
        agent = f"agent {agent}"
    return f"{agent} ({role})" if role else agent


def message_heading(message: Message, voice: Voice) -> str:
    """Who spoke, from this voice's point of view."""
    own = message.voice == voice
    if message.sender == "user":
        return "user" if own else f"user, to {speaker_name(message.voice)}"
    return "you" if own else speaker_name(message.voice)


def message_parts(spoken: MessageText, voice: Voice, *, tools: bool = True) -> list[Part]:
    """One message as parts. Remarks about a message come after it, so that its own part stays the same."""
    if spoken.message.kind == "carried":
        return [Part(prompt_parts.PRIOR, spoken.text, literal=True)]
    who = message_heading(spoken.message, voice)
    if spoken.message.sender == "assistant":
        shown = _shown(spoken.tools, who) if tools else []
        return [*shown, Part(who, without_question_forms(spoken.text))]
    said, why = Part(who, spoken.text), spoken.unanswered
    attached = [Part(remark) for remark in spoken.attached]
    if why is None:
        return [said, *attached]
    agent = "you" if spoken.message.voice == voice else speaker_name(spoken.message.voice)
    shown = _shown(spoken.tools, agent) if tools else []
    shown = [*attached, *shown]
    return [said, *shown, Part(prompt_parts.unanswered_note(why.kind, why.tools_run), prompt_parts.ONLY_IF)]


def correction_part(spoken: MessageText, voice: Voice) -> Part:
    """The current text of a message, for a session that has an older revision."""
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
"""``<form>`` is also common in web pages: it counts only at the beginning of a line."""
_HINTS = ("question-form", "<form", "askuserquestion", '"questions"')


def without_question_forms(text: str) -> str:
    """The text with each form replaced by one line."""
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
    """Where it ends; None if it never does. ``open_ended``: the elements whose end was not found."""
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
