"""The output of ``codex exec --json``, line by line, as events."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.decoding import DAMAGE
from segue.core import events as ev
from segue.core.usage import Usage

_RETRY = re.compile(r"Reconnecting\.\.\.(?: (\d+)/(\d+))?")
_COMPACTED = "Heads up: Long threads and multiple compactions"


class Tokens(msgspec.Struct, frozen=True):
    """Codex's own counters: the input includes what was read from and written to the cache."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    def plain(self) -> Usage:
        """As disjoint counters."""
        read = min(self.cached_input_tokens, self.input_tokens)
        written = min(self.cache_write_input_tokens, self.input_tokens - read)
        return Usage(self.input_tokens - read - written, read, written, self.output_tokens)


class _Error(msgspec.Struct, frozen=True):
    message: str = ""


class _Change(msgspec.Struct, frozen=True):
    path: str = ""
    kind: str = ""


class _Item(msgspec.Struct, frozen=True):
    id: str = ""
    type: str = ""
    text: str = ""
    message: str = ""
    status: str = ""
    command: str = ""
    aggregated_output: str = ""
    exit_code: int | None = None
    changes: list[_Change] = []
    server: str = ""
    tool: str = ""
    query: str = ""
    arguments: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    thread_id: str = ""
    item: _Item | None = None
    message: str = ""
    error: _Error | None = None
    usage: Tokens | None = None


_line = msgspec.json.Decoder(_Line)
_any = msgspec.json.Decoder()


def parse(line: bytes) -> Sequence[ev.Event]:
    """One line as events; what cannot be read becomes ``Unknown``."""
    try:
        return _read(_line.decode(line), line)
    except DAMAGE as error:
        return ev.unknown(line, str(error)) if line.strip() else ()


def _read(record: _Line, line: bytes) -> Sequence[ev.Event]:
    match record.type:
        case "item.completed" if record.item is not None:
            return _completed(record.item, line)
        case "item.started" if record.item is not None:
            return _started(record.item)
        case "item.updated" | "turn.started":
            return ()
        case "thread.started":
            return (ev.Session(record.thread_id),)
        case "turn.completed":
            return (ev.End(True, raw={"usage": record.usage}),)
        case "turn.failed":
            return (ev.End(False, message=record.error.message if record.error else ""),)
        case "error":
            return _trouble(record.message)
    return ev.unknown(line, f"unknown type {record.type}")


def _started(item: _Item) -> Sequence[ev.Event]:
    name = _tool(item)
    return (ev.ToolCall(item.id, name, _input(item)),) if name else ()


def _completed(item: _Item, line: bytes) -> Sequence[ev.Event]:
    match item.type:
        case "agent_message":
            return (ev.Text(item.text),) if item.text else ()
        case "reasoning":
            return (ev.Thinking(item.text),) if item.text else ()
        case "error":
            return (ev.Compacted(),) if item.message.startswith(_COMPACTED) else (ev.Notice(item.message),)
        case "todo_list" | "plan":
            return ()
    name = _tool(item)
    if not name:
        return ev.unknown(line, f"unknown item {item.type}")
    ok = item.status not in ("failed", "declined") and not item.exit_code
    denied = item.status == "declined"
    return (ev.ToolResult(item.id, ok, _output(item), name, item.exit_code, denied),)


def _trouble(message: str) -> Sequence[ev.Event]:
    """An ``error`` line never ends the turn: Codex retries, or ``turn.failed`` follows."""
    retry = _RETRY.match(message)
    if retry is None:
        return (ev.Notice(message),)
    attempt, limit = (int(number) if number else None for number in retry.groups())
    return (ev.Retry(attempt, limit, message=message),)


def _tool(item: _Item) -> str:
    """The tool of an item; empty if the item is not a tool call."""
    match item.type:
        case "command_execution":
            return "shell"
        case "file_change":
            return "apply_patch"
        case "mcp_tool_call":
            return f"{item.server}.{item.tool}"
        case "collab_tool_call":
            return item.tool or item.type
        case "web_search":
            return "web_search"
    return ""


def _input(item: _Item) -> Any:
    match item.type:
        case "command_execution":
            return {"command": item.command}
        case "file_change":
            return {"changes": [{"path": change.path, "kind": change.kind} for change in item.changes]}
        case "web_search":
            return {"query": item.query}
    return _value(item.arguments)


def _output(item: _Item) -> str:
    if item.error is not None:
        return item.error.message
    if item.type == "file_change":
        return "\n".join(f"{change.kind} {change.path}" for change in item.changes)
    return item.aggregated_output or _text(_value(item.result))


def _value(raw: msgspec.Raw) -> Any:
    return _any.decode(raw) if bytes(raw) else None


def _text(value: Any) -> str:
    parts = value.get("content") if isinstance(value, dict) else None
    if not isinstance(parts, list):
        return ""
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
