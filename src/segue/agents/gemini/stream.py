"""Gemini's ``stream-json`` output, line by line, as events.

The assistant's text comes only in fragments (``delta``), and usage comes once, at the end, as a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.decoding import DAMAGE
from segue.core import events as ev

_REFUSALS = frozenset({"policy_violation", "tool_not_registered"})
"""Error types of a call that never ran: it was denied, or the tool was not offered to the model."""


class _Error(msgspec.Struct, frozen=True):
    type: str | None = None
    message: str = ""


class _Line(msgspec.Struct, frozen=True):
    type: str
    role: str | None = None
    content: str | None = None
    delta: bool = False
    session_id: str | None = None
    model: str | None = None
    tool_name: str = ""
    tool_id: str = ""
    parameters: msgspec.Raw = msgspec.Raw()
    status: str | None = None
    output: str | None = None
    error: _Error | None = None
    severity: str | None = None
    message: str | None = None


class _Counts(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cached: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class Stats(_Counts, frozen=True):
    """The usage of the run according to its result, in total and by model."""

    models: dict[str, _Counts] = {}


_line = msgspec.json.Decoder(_Line)
_any = msgspec.json.Decoder()


def parse(line: bytes) -> Sequence[ev.Event]:
    """One line as events; what cannot be read becomes ``Unknown``."""
    try:
        return _events(_line.decode(line), line)
    except DAMAGE as error:
        return ev.unknown(line, str(error)) if line.strip() else ()


def _events(record: _Line, line: bytes) -> Sequence[ev.Event]:
    match record.type:
        case "message":
            return _message(record)
        case "tool_use":
            return (ev.ToolCall(record.tool_id, record.tool_name, _value(record.parameters)),)
        case "tool_result":
            return (_tool_result(record),)
        case "init":
            return (ev.Session(record.session_id or "", record.model),)
        case "result":
            return (_result(record, line),)
        case "error":
            return (ev.Notice(record.message or ""),)
    return ev.unknown(line, f"unknown type {record.type}")


def _message(record: _Line) -> Sequence[ev.Event]:
    """The assistant's text; the echo of the user's message is skipped."""
    if record.role != "assistant" or not record.content:
        return ()
    return (ev.TextDelta(record.content) if record.delta else ev.Text(record.content),)


def _tool_result(record: _Line) -> ev.ToolResult:
    ok, error = record.status == "success", record.error or _Error()
    output = record.output or error.message
    return ev.ToolResult(record.tool_id, ok, output, denied=not ok and error.type in _REFUSALS)


def _result(record: _Line, line: bytes) -> ev.End:
    raw: dict[str, Any] = _any.decode(line)
    ok = record.status == "success"
    return ev.End(ok, message="" if ok else (record.error or _Error()).message, raw=raw)


def _value(raw: msgspec.Raw) -> Any:
    return _any.decode(raw) if bytes(raw) else None
