"""One message of a Gemini session file, and what its parts are. Pure; nothing is ever changed in place.

A message is ``{id, timestamp, type, content, …}``; ``type`` is ``user``, ``gemini``, or one that is never
sent to the model. ``content`` is text or a list of parts. A tool's call stands in the content as a part, or
beside it in ``toolCalls`` together with its result.

What a session file is made of, as types: a header, messages, their parts; other fields are passed over.

The same values made of records whose fields have other types than they should: of whatever fits.

What one line of a session file holds; the older single object is such a line too.

Decoding by type is several times faster than by table, and most of a transcript is passed over unread.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Optional

import msgspec

from segue.core.json_values import as_items, as_table, as_text, as_whole

RawMessage = dict[str, Any]
RawPart = dict[str, Any]

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


def parts(message: RawMessage) -> list[RawPart]:
    """The content as a list of parts."""
    content = message.get("content")
    found = content if isinstance(content, list) else [content] if content else []
    return [
        {"text": part} if isinstance(part, str) else part for part in found if isinstance(part, str | dict)
    ]


def calls(message: RawMessage) -> list[RawPart]:
    """The calls that stand in the content."""
    return [as_table(part["functionCall"]) for part in parts(message) if "functionCall" in part]


def answered(message: RawMessage) -> list[str]:
    """The ids of the calls whose results a message holds."""
    return [answer_id(part) for part in parts(message) if "functionResponse" in part]


def answer_id(part: RawPart) -> str:
    return as_text(as_table(part.get("functionResponse")).get("id"))


def is_context(message: RawMessage) -> bool:
    """What Gemini itself opens a session with; it makes it anew with every start."""
    return message.get("type", "user") == "user" and _shown(message).startswith(_CONTEXTS)


def is_passed_over(message: RawMessage) -> bool:
    """A user's words that Gemini takes for a command of its own and leaves out when it resumes."""
    return message.get("type") == "user" and _shown(message).startswith(_COMMANDS)


def is_sent(message: RawMessage) -> bool:
    """Whether the model gets anything of a message: only such a one stays in the session for good."""
    match message.get("type"):
        case "user":
            return bool(_shown(message)) and not is_context(message)
        case "gemini":
            return any(as_items(message.get(key)) for key in ("toolCalls", "thoughts")) or bool(
                parts(message)
            )
    return False


def is_prompt(message: RawMessage) -> bool:
    """Words of the user's, rather than results of tools."""
    return message.get("type") == "user" and is_sent(message) and not answered(message)


def _shown(message: RawMessage) -> str:
    """How Gemini reads a message when it looks for what to leave out; only the beginning matters."""
    for part in parts(message):
        if any(part.get(name) is not None for name in _NAMED_PARTS):
            return "["
        words = as_text(part.get("text")).strip(" \t\r\n\v\f\ufeff\u00a0\u2028\u2029")
        if words:
            return words
    return ""


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


def as_held(record: dict[str, Any]) -> tuple[Held, str]:
    if isinstance(record.get("$rewindTo"), str):
        return as_text(record["$rewindTo"]), ""
    if isinstance(record.get("id"), str):
        return as_message(record), ""
    if isinstance(record.get("$set"), dict):
        return as_header(record["$set"]), ""
    if isinstance(record.get("sessionId"), str):
        return as_header(record), ""
    return None, as_text(record.get("type")) or next(map(as_text, record), "")


def as_header(record: dict[str, Any]) -> Header:
    named = {key: as_text(record.get(key)) or None for key in ("sessionId", "startTime", "lastUpdated")}
    said = record.get("messages")
    return Header(
        **named,
        kind=as_text(record.get("kind")) or None,
        summary=as_text(record.get("summary")) or None,
        directories=[as_text(one) for one in as_items(record.get("directories"))] or None,
        memoryScratchpad=record.get("memoryScratchpad"),
        messages=[as_message(as_table(one)) for one in said] if isinstance(said, list) else None,
    )


def as_message(record: dict[str, Any]) -> Message:
    tokens = as_table(record.get("tokens"))
    return Message(
        id=as_text(record.get("id")) or None,
        timestamp=as_text(record.get("timestamp")) or None,
        type=as_text(record.get("type")) or None,
        content=_parts(record.get("content")),
        thoughts=[
            Thought(as_text(one.get("subject")), as_text(one.get("description")))
            for one in map(as_table, as_items(record.get("thoughts")))
        ],
        tokens=Tokens(as_whole(tokens.get("input")), as_whole(tokens.get("total"))) if tokens else None,
        model=as_text(record.get("model")) or None,
        toolCalls=[
            Done(**_call(one), status=as_text(one.get("status")), result=_parts(one.get("result")))
            for one in map(as_table, as_items(record.get("toolCalls")))
        ],
    )


def _call(record: dict[str, Any]) -> dict[str, Any]:
    return {"id": as_text(record.get("id")), "name": as_text(record.get("name")), "args": record.get("args")}


def _parts(content: Any) -> list[Part | str]:
    return [_part(one) for one in parts({"content": content})]


def _part(part: dict[str, Any]) -> Part:
    answer = as_table(part.get("functionResponse"))
    data = as_text(as_table(part.get("inlineData")).get("data"))
    return Part(
        text=as_text(part.get("text")),
        thought=part.get("thought"),
        functionCall=Call(**_call(part["functionCall"])) if as_table(part.get("functionCall")) else None,
        functionResponse=Response(
            as_text(answer.get("id")), as_text(answer.get("name")), answer.get("response")
        )
        if answer
        else None,
        inlineData=Inline(msgspec.Raw(b'"' + b" " * len(data) + b'"')) if data else None,
    )


def clean(value: Any, raw: bytes) -> Any:
    """Text that can be written anywhere: half of a surrogate pair, which only an escape can be, cannot."""
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)
_TOUCH, _TOUCH_BYTES = b'{"$set":{"lastUpdated":"', 51

_line = msgspec.json.Decoder(Line)
_message = msgspec.json.Decoder(Message)
_header = msgspec.json.Decoder(Header)


def held(raw: bytes) -> tuple[Held, str]:
    """What a line holds, or its name where that is unknown. Raises one of ``ERRORS`` for what is no JSON."""
    try:
        if raw.startswith(b'{"id"'):
            return _message.decode(raw), ""
        line = _line.decode(raw)
        if line.rewind is not None:
            return line.rewind, ""
        if line.id is not None:
            return _message.decode(raw), ""
        if line.patch is not None:
            return line.patch, ""
        return (_header.decode(raw), "") if line.sessionId is not None else (None, line.type or "")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return as_held(as_table(_plain(raw)))


def is_touch(raw: bytes) -> bool:
    """Every second line says nothing but when the session was written to."""
    return len(raw) <= _TOUCH_BYTES and raw.startswith(_TOUCH)


def header(raw: bytes) -> Header:
    """The whole of the older form."""
    try:
        return _header.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return as_header(as_table(_plain(raw)))


def ms(stamp: str | None) -> int | None:
    try:
        when = datetime.fromisoformat(stamp or "")
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _plain(raw: bytes) -> Any:
    return clean(json.loads(raw.decode("utf-8", "replace")), raw)
