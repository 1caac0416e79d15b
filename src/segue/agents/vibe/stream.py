"""Vibe's ``streaming`` output, line by line, as events. Each line shows which protocol it belongs to.

3.x writes entries (``type``: message, reasoning, effect, …), each with the session's id. 2.x writes plain
messages (``role``: system, user, assistant, tool), and on a resume *the whole history first*. A line does not
show whether it is replayed, so every message of the user becomes ``Heard``: everything before the last of
them is history.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.decoding import DAMAGE
from segue.core import events as ev

_REFUSALS = ("Session '", "Failed to load session", "Session logging is disabled", "Invalid configuration")
_DENIED = re.compile(r"Tool execution not permitted\.|Tool '[^']*' is permanently disabled")
_RETURN_CODE = re.compile(r"\bReturn ?code: (-?\d+)", re.I)
OUTPUT_CHARS = 2_000_000


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None


class _Outcome(msgspec.Struct, frozen=True):
    type: str = ""


class _Detail(msgspec.Struct, frozen=True, rename="camel"):
    tool_name: str = ""
    input: msgspec.Raw = msgspec.Raw()


class _State(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    output_text: str | None = None
    output: msgspec.Raw = msgspec.Raw()
    decision: str | None = None
    error: msgspec.Raw = msgspec.Raw()


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, frozen=True):
    id: str | None = None
    function: _Function = _Function()


class _Line(msgspec.Struct, frozen=True):
    """A line of either protocol."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    session: str | None = msgspec.field(name="sessionId", default=None)
    content: str | list[_Block] | None = None
    source: str | None = None
    outcome: _Outcome | None = None
    text: str | None = None
    detail: msgspec.Raw = msgspec.Raw()
    state: msgspec.Raw = msgspec.Raw()
    kind: str | None = None
    message: str | None = None
    injected: bool = False
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    name: str | None = None
    tool_call_id: str | None = None


_line = msgspec.json.Decoder(_Line)
_detail = msgspec.json.Decoder(_Detail)
_state = msgspec.json.Decoder(_State)
_any = msgspec.json.Decoder()


def parse(line: bytes) -> Sequence[ev.Event]:
    """One line as events; what cannot be read becomes ``Unknown``."""
    try:
        record = _line.decode(line)
        return _entry(record, line) if record.type is not None else _message(record, line)
    except DAMAGE as error:
        return _plain(line, str(error))


def _plain(line: bytes, why: str) -> Sequence[ev.Event]:
    """2.x prints some of its refusals on stdout, as plain text. The assistant's text is never printed so."""
    text = line.decode("utf-8", "replace").strip()
    if text.startswith(_REFUSALS):
        return (ev.End(False, message=text[:2_000]),)
    return ev.unknown(line, why) if text else ()


def _entry(record: _Line, line: bytes) -> Sequence[ev.Event]:
    found: list[ev.Event] = [ev.Session(record.session)] if record.session else []
    discarded = record.outcome is not None and record.outcome.type == "discarded"
    match record.type:
        case "message" if record.role == "user":
            found += [ev.Heard(_text(record.content))] if record.source == "turn_start" else []
        case "message" if record.role == "assistant" and not discarded:
            found.append(ev.Text(_text(record.content)))
        case "reasoning" if record.text and not discarded:
            found.append(ev.Thinking(record.text))
        case "effect":
            found += _effect(record)
        case "notice" if record.message:
            found.append(ev.Notice(record.message))
        case "checkpoint" if "compact" in (record.kind or ""):
            found.append(ev.Compacted())
        case "message" | "reasoning" | "notice" | "checkpoint" | "callback":
            pass
        case _:
            return (*found, *ev.unknown(line, f"unknown type {record.type}"))
    return found


def _effect(record: _Line) -> Sequence[ev.Event]:
    """One entry, written when the tool is done, contains the call and its result."""
    detail, state, key = _detail.decode(record.detail), _state.decode(record.state), record.id or ""
    call = ev.ToolCall(key, detail.tool_name, _value(detail.input))
    output, error = _value(state.output), _value(state.error)
    text = state.output_text or _message_in(error) or _message_in(output)
    return call, ev.ToolResult(
        key,
        state.status == "completed",
        text[:OUTPUT_CHARS],
        detail.tool_name,
        _exit_code(output, error),
        denied=state.decision == "skip",
    )


def _message(record: _Line, line: bytes) -> Sequence[ev.Event]:
    text = _text(record.content)
    match record.role:
        case "user":
            return () if record.injected else (ev.Heard(text),)
        case "assistant":
            return _assistant(record, text)
        case "tool":
            return (_tool_result(record, text),)
        case "system":
            return ()
    return ev.unknown(line, f"unknown role {record.role}")


def _assistant(record: _Line, text: str) -> Sequence[ev.Event]:
    found: list[ev.Event] = []
    if record.reasoning_content:
        found.append(ev.Thinking(record.reasoning_content))
    if text or not record.tool_calls:
        found.append(ev.Text(text))
    for call in record.tool_calls or ():
        found.append(
            ev.ToolCall(call.id or "", call.function.name or "", _arguments(call.function.arguments))
        )
    return found


def _tool_result(record: _Line, text: str) -> ev.ToolResult:
    """A tool that ran writes ``key: value`` lines, so its output cannot look like a refusal."""
    denied = _DENIED.fullmatch(text) is not None
    failed = denied or text.startswith(("<tool_error>", "<user_cancellation>", "Error getting tool"))
    code = _RETURN_CODE.search(text, max(len(text) - 40, 0)) if record.name == "bash" else None
    return ev.ToolResult(
        record.tool_call_id or "",
        not failed,
        text[:OUTPUT_CHARS],
        record.name,
        int(code[1]) if code else None,
        denied,
    )


def _text(content: str | list[_Block] | None) -> str:
    if isinstance(content, list):
        return "\n\n".join(block.text for block in content if block.type == "text" and block.text)
    return content or ""


def _arguments(text: str | None) -> Any:
    try:
        return _any.decode(text or "null")
    except (msgspec.DecodeError, RecursionError):
        return text


def _value(raw: msgspec.Raw) -> Any:
    return _any.decode(raw) if bytes(raw) else None


def _message_in(value: Any) -> str:
    if isinstance(value, dict):
        return next(
            (value[key] for key in ("message", "content", "stderr") if isinstance(value.get(key), str)), ""
        )
    return value if isinstance(value, str) else ""


def _exit_code(*values: Any) -> int | None:
    for value in values:
        for key in ("exitCode", "returncode"):
            if isinstance(value, dict) and isinstance(value.get(key), int):
                return int(value[key])
        match = _RETURN_CODE.search(_message_in(value))
        if match:
            return int(match[1])
    return None
