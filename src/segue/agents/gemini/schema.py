"""The contents of a session file as types: a header, messages, their parts.

Decoding into types is fast and skips most of a file; if fields have unexpected types, only what fits is used.
To be written again, a message is read as a table with all its fields (see ``forms``).

A message is ``{id, timestamp, type, content, …}``; ``type`` is ``user``, ``gemini``, or one that is never
sent to the model. ``content`` is text or a list of parts. A tool's call is a part of the content, or beside
it in ``toolCalls`` together with its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Optional

import msgspec

from segue.agents.decoding import DAMAGE
from segue.core.json_values import as_items, as_table, as_text, as_whole

RawMessage = dict[str, Any]
RawPart = dict[str, Any]

SNAPSHOT = "<state_snapshot>"
"""How a summary begins."""
THANKS = "Got it. Thanks for the additional context!"
"""The answer that Gemini inserts in the model's name after a summary."""
INTERRUPTED = "[The previous response was interrupted before it completed.]"
_CONTEXTS = ("<session_context>", "<hook_context>")
_COMMANDS = ("/", "?")
BLANK = " \t\r\n\v\f\ufeff\u00a0\u2028\u2029"
NO_JSON = (*DAMAGE, ValueError)
"""What reading a line raises."""
_NOTHING = msgspec.Raw(b'""')
_TOUCH, _TOUCH_BYTES = b'{"$set":{"lastUpdated":"', 51


# --- types -----------------------------------------------------------------------------------------


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
    cached: int | None = None
    total: int | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A call with its result, beside the text."""

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
    toolCalls: list[ToolCall] | None = None  # noqa: N815


class Header(msgspec.Struct, frozen=True):
    """A header line, or a patch (``$set``) of it; a file of the older form is one of these."""

    sessionId: str | None = None  # noqa: N815
    startTime: str | None = None  # noqa: N815
    lastUpdated: str | None = None  # noqa: N815
    kind: str | None = None
    summary: str | None = None
    directories: list[str] | None = None
    memoryScratchpad: Any = None  # noqa: N815
    messages: list[Message] | None = None

    @property
    def opens(self) -> bool:
        """A header line: a session begins here, or is reopened."""
        return self.startTime is not None


class Rewind(msgspec.Struct, frozen=True):
    """Removes a message and all after it."""

    to: str


class Unknown(msgspec.Struct, frozen=True):
    name: str


Line = Message | Header | Rewind | Unknown


class _Line(msgspec.Struct, frozen=True):
    """Decides which of them it is; ``Message`` and ``Header`` are decoded from the same bytes."""

    id: str | None = None
    sessionId: str | None = None  # noqa: N815
    patch: Header | None = msgspec.field(name="$set", default=None)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)
    type: str | None = None


class Accounts(msgspec.Struct, frozen=True):
    """``google_accounts.json``."""

    active: str | None = None


class _Auth(msgspec.Struct, frozen=True):
    selected: str | None = msgspec.field(default=None, name="selectedType")


class _Security(msgspec.Struct, frozen=True):
    auth: _Auth = _Auth()


class Settings(msgspec.Struct, frozen=True):
    """``settings.json``: only what selects how to log in."""

    security: _Security = _Security()
    older: str | None = msgspec.field(default=None, name="selectedAuthType")


_line = msgspec.json.Decoder(_Line)
_message = msgspec.json.Decoder(Message)
_header = msgspec.json.Decoder(Header)


# --- reading as types ------------------------------------------------------------------------------


def line_of(raw: bytes) -> Line:
    """Raises one of ``NO_JSON``."""
    try:
        if raw.startswith(b'{"id"'):
            return _message.decode(raw)
        line = _line.decode(raw)
        if line.rewind is not None:
            return Rewind(line.rewind)
        if line.id is not None:
            return _message.decode(raw)
        if line.patch is not None:
            return line.patch
        return _header.decode(raw) if line.sessionId is not None else Unknown(line.type or "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _as_line(as_table(_plain(raw)))


def object_of(raw: bytes) -> Header:
    """A whole file of the older form."""
    try:
        return _header.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return as_header(as_table(_plain(raw)))


def is_touch(raw: bytes) -> bool:
    """Whether a line only contains the time of a change; every second line does."""
    return len(raw) <= _TOUCH_BYTES and raw.startswith(_TOUCH)


def part_list(content: Content) -> list[Part]:
    if isinstance(content, str):
        return [Part(text=content)] if content else []
    if isinstance(content, Part):
        return [content]
    return [part if isinstance(part, Part) else Part(text=part) for part in content or ()]


def words_of(parts: list[Part]) -> str:
    if len(parts) == 1:
        return "" if parts[0].thought else parts[0].text or ""
    return "".join(part.text for part in parts if part.text and not part.thought)


def is_context_text(words: str) -> bool:
    """Whether it is the context with which Gemini begins a session, made new with every start."""
    return words.lstrip(BLANK).startswith(_CONTEXTS)


def is_command_text(words: str) -> bool:
    """Whether Gemini reads a text as one of its own commands and leaves it out when it resumes."""
    return words.lstrip(BLANK).startswith(_COMMANDS)


def all_context(messages: Iterable[Message]) -> bool:
    return all(one.type == "user" and is_context_text(words_of(part_list(one.content))) for one in messages)


# --- reading what fits -----------------------------------------------------------------------------


def _plain(raw: bytes) -> Any:
    return clean(json.loads(raw.decode("utf-8", "replace")), raw)


def clean(value: Any, raw: bytes) -> Any:
    """The value without halves of surrogate pairs, which can only be written as escapes."""
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _as_line(record: dict[str, Any]) -> Line:
    if isinstance(record.get("$rewindTo"), str):
        return Rewind(record["$rewindTo"])
    if isinstance(record.get("id"), str):
        return as_message(record)
    if isinstance(record.get("$set"), dict):
        return as_header(record["$set"])
    if isinstance(record.get("sessionId"), str):
        return as_header(record)
    return Unknown(as_text(record.get("type")) or next(map(as_text, record), ""))


def as_header(record: dict[str, Any]) -> Header:
    messages = record.get("messages")
    texts = ("sessionId", "startTime", "lastUpdated", "kind", "summary")
    return Header(
        **{key: as_text(record.get(key)) or None for key in texts},
        directories=[as_text(one) for one in as_items(record.get("directories"))] or None,
        memoryScratchpad=record.get("memoryScratchpad"),
        messages=[as_message(as_table(one)) for one in messages] if isinstance(messages, list) else None,
    )


def as_message(record: RawMessage) -> Message:
    tokens = as_table(record.get("tokens"))
    return Message(
        **{key: as_text(record.get(key)) or None for key in ("id", "timestamp", "type", "model")},
        content=_as_content(record.get("content")),
        thoughts=[
            Thought(as_text(one.get("subject")), as_text(one.get("description")))
            for one in map(as_table, as_items(record.get("thoughts")))
        ],
        tokens=Tokens(*map(as_whole, map(tokens.get, ("input", "cached", "total")))) if tokens else None,
        toolCalls=[
            ToolCall(
                **_as_call(one), status=as_text(one.get("status")), result=_as_content(one.get("result"))
            )
            for one in map(as_table, as_items(record.get("toolCalls")))
        ],
    )


def _as_call(record: dict[str, Any]) -> dict[str, Any]:
    return {"id": as_text(record.get("id")), "name": as_text(record.get("name")), "args": record.get("args")}


def _as_content(content: Any) -> list[Part | str]:
    return [_as_part(one) for one in raw_parts({"content": content})]


def _as_part(part: RawPart) -> Part:
    call, answer = as_table(part.get("functionCall")), as_table(part.get("functionResponse"))
    data = as_text(as_table(part.get("inlineData")).get("data"))
    fields = (as_text(answer.get("id")), as_text(answer.get("name")), answer.get("response"))
    return Part(
        text=as_text(part.get("text")),
        thought=part.get("thought"),
        functionCall=Call(**_as_call(call)) if call else None,
        functionResponse=Response(*fields) if answer else None,
        inlineData=Inline(msgspec.Raw(b'"' + b" " * len(data) + b'"')) if data else None,
    )


def raw_parts(message: RawMessage) -> list[RawPart]:
    """The content as a list of parts."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content] if content else []
    return [
        {"text": part} if isinstance(part, str) else part for part in parts if isinstance(part, str | dict)
    ]
