"""What happens in a turn, as a stream of events: the same vocabulary for all agents.

Every event is frozen and carries a ``type``; ``msgspec.json.encode`` gives the line that
``segue run --events`` prints.
"""

from __future__ import annotations

from typing import Any

import msgspec

from segue.core.usage import Pays, Usage


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """The common root of all events."""


class Session(Event, frozen=True, tag="session"):
    """The CLI announced its native session."""

    id: str
    model: str | None = None
    cwd: str | None = None
    pays: Pays | None = None
    """What pays for the run, as far as the CLI says so."""


class Heard(Event, frozen=True, tag="heard"):
    """The user's message, as the CLI received it; what came before it is history. Listeners never get it."""

    text: str


class Text(Event, frozen=True, tag="text"):
    """One whole piece of what the assistant says. The last piece is the answer."""

    text: str


class TextDelta(Event, frozen=True, tag="text-delta"):
    """A fragment of a text that will also arrive whole, unless the agent only prints fragments."""

    text: str


class Thinking(Event, frozen=True, tag="thinking"):
    text: str


class ToolCall(Event, frozen=True, tag="tool-call"):
    id: str
    name: str
    input: Any = None
    parent: str | None = None
    """The call of the subagent that makes it; None: the agent itself."""


class ToolResult(Event, frozen=True, tag="tool-result"):
    """How a tool call ended. ``denied``: it was refused and did not run."""

    id: str
    ok: bool
    output: str = ""
    name: str | None = None
    exit_code: int | None = None
    denied: bool = False
    parent: str | None = None
    """As its call."""


class Question(Event, frozen=True, tag="question"):
    """The agent asks the user. An answer must name ``id``."""

    id: str
    questions: Any
    tool_id: str | None = None


class Permission(Event, frozen=True, tag="permission"):
    """The agent asks whether a tool may run."""

    id: str
    tool: str
    input: Any = None
    tool_id: str | None = None


class UsageReport(Event, frozen=True, tag="usage"):
    """The usage of one model request. A later report of the same request replaces it."""

    usage: Usage
    model: str | None = None
    request: str | None = None
    side: bool = False
    """Not the conversation's own request (a sub-agent's, a title's): it does not fill the window."""
    cost_usd: float | None = None
    """The cost that the CLI itself reports."""


class Retry(Event, frozen=True, tag="retry"):
    """The CLI retries a model request."""

    attempt: int | None = None
    limit: int | None = None
    delay_ms: int | None = None
    message: str = ""


class Compacted(Event, frozen=True, tag="compacted"):
    """The CLI replaced its history with a summary."""

    trigger: str | None = None
    tokens: int | None = None


class Notice(Event, frozen=True, tag="notice"):
    text: str
    until: int | None = None
    """When the limit that it reports ends, in epoch milliseconds."""


class LimitReport(Event, frozen=True, tag="limit"):
    """How much of a usage limit is used, from 0 to 1, and when it is reset, in epoch milliseconds."""

    window: str
    used: float | None = None
    resets_at: int | None = None


class End(Event, frozen=True, tag="end"):
    """The CLI's final event of the turn. ``raw`` is that record, for the agent's own ``conclude``."""

    ok: bool
    text: str | None = None
    message: str = ""
    raw: Any = None


class Unknown(Event, frozen=True, tag="unknown"):
    """A line that could not be read, or of an unknown kind: kept, never an error."""

    line: str
    why: str = ""


AnyEvent = (
    Session
    | Heard
    | Text
    | TextDelta
    | Thinking
    | ToolCall
    | ToolResult
    | Question
    | Permission
    | UsageReport
    | Retry
    | Compacted
    | Notice
    | LimitReport
    | End
    | Unknown
)

UNKNOWN_LINE_BYTES = 2_000


def unknown(line: bytes, why: str) -> tuple[Unknown]:
    """An unreadable line as an event, bounded."""
    return (Unknown(line[:UNKNOWN_LINE_BYTES].decode("utf-8", "replace"), why),)
