"""What a session file is made of, as types: a header, messages, their parts; other fields are passed over."""

from __future__ import annotations

from typing import Any, Optional

import msgspec

_NOTHING = msgspec.Raw(b'""')


class Inline(msgspec.Struct, frozen=True):
    data: msgspec.Raw = _NOTHING


class Call(msgspec.Struct, frozen=True):
    id: str | None = None
    name: str | None = None
    args: Any = None


class Response(msgspec.Struct, frozen=True):
    id: str | None = None
    name: str | None = None
    response: Any = None
    parts: Optional[list["Part"]] = None  # noqa: UP037, UP045 - resolved while this class is made


class Part(msgspec.Struct, frozen=True):
    text: str | None = None
    thought: Any = None
    functionCall: Call | None = None  # noqa: N815 - as in the file
    functionResponse: Response | None = None  # noqa: N815
    inlineData: Inline | None = None  # noqa: N815


Content = str | Part | list[Part | str] | None


class Thought(msgspec.Struct, frozen=True):
    subject: str | None = None
    description: str | None = None


class Tokens(msgspec.Struct, frozen=True):
    input: int | None = None
    total: int | None = None


class Done(msgspec.Struct, frozen=True):
    """A call with its result, beside the words."""

    id: str | None = None
    name: str | None = None
    args: Any = None
    status: str | None = None
    result: Content = None


class Message(msgspec.Struct, frozen=True):
    id: str | None = None
    timestamp: str | None = None
    type: str | None = None
    content: Content = None
    thoughts: list[Thought] | None = None
    tokens: Tokens | None = None
    model: str | None = None
    toolCalls: list[Done] | None = None  # noqa: N815


class Header(msgspec.Struct, frozen=True):
    """What a header line says, and what a patch changes of it."""

    sessionId: str | None = None  # noqa: N815
    startTime: str | None = None  # noqa: N815
    lastUpdated: str | None = None  # noqa: N815
    kind: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    memoryScratchpad: Any = None  # noqa: N815
    messages: list[Message] | None = None


class Line(msgspec.Struct, frozen=True):
    """Which of the four it is; ``Message`` and ``Header`` are decoded of the same bytes."""

    id: str | None = None
    sessionId: str | None = None  # noqa: N815
    patch: Header | None = msgspec.field(name="$set", default=None)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)
    type: str | None = None


Held = Message | Header | str | None
"""A message; a header or a patch of it; the id that is taken back to; None: something else."""
