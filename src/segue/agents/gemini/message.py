"""One message of a Gemini session file, and what its parts are. Pure; nothing is ever changed in place.

A message is ``{id, timestamp, type, content, …}``; ``type`` is ``user``, ``gemini``, or one that is never
sent to the model. ``content`` is text or a list of parts. A tool's call stands in the content as a part, or
beside it in ``toolCalls`` together with its result.
"""

from __future__ import annotations

from typing import Any

from segue.core.loose import items, table, text

Message = dict[str, Any]
Part = dict[str, Any]

ECHO = "_response"
"""Behind a message's id: the id under which Gemini repeats the results of that message's calls."""

_CONTEXTS = ("<session_context>", "<hook_context>")
_COMMANDS = ("/", "?")
_NAMED_PARTS = (
    "videoMetadata",
    "thought",
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
)


def parts(message: Message) -> list[Part]:
    """The content as a list of parts."""
    content = message.get("content")
    found = content if isinstance(content, list) else [content] if content else []
    return [
        {"text": part} if isinstance(part, str) else part for part in found if isinstance(part, str | dict)
    ]


def calls(message: Message) -> list[Part]:
    """The calls that stand in the content."""
    return [table(part["functionCall"]) for part in parts(message) if "functionCall" in part]


def answered(message: Message) -> list[str]:
    """The ids of the calls whose results a message holds."""
    return [answer_id(part) for part in parts(message) if "functionResponse" in part]


def answer_id(part: Part) -> str:
    return text(table(part.get("functionResponse")).get("id"))


def is_context(message: Message) -> bool:
    """What Gemini itself opens a session with; it makes it anew with every start."""
    return message.get("type", "user") == "user" and _shown(message).startswith(_CONTEXTS)


def is_passed_over(message: Message) -> bool:
    """A user's words that Gemini takes for a command of its own and leaves out when it resumes."""
    return message.get("type") == "user" and _shown(message).startswith(_COMMANDS)


def is_sent(message: Message) -> bool:
    """Whether the model gets anything of a message: only such a one stays in the session for good."""
    match message.get("type"):
        case "user":
            return bool(_shown(message)) and not is_context(message)
        case "gemini":
            return any(items(message.get(key)) for key in ("toolCalls", "thoughts")) or bool(parts(message))
    return False


def is_prompt(message: Message) -> bool:
    """Words of the user's, rather than results of tools."""
    return message.get("type") == "user" and is_sent(message) and not answered(message)


def _shown(message: Message) -> str:
    """How Gemini reads a message when it looks for what to leave out; only the beginning matters."""
    for part in parts(message):
        if any(part.get(name) is not None for name in _NAMED_PARTS):
            return "["
        words = text(part.get("text")).strip(" \t\r\n\v\f\ufeff\u00a0\u2028\u2029")
        if words:
            return words
    return ""
