"""Claude's ``stream-json`` output, line by line, as events."""

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.decoding import DAMAGE
from segue.core import events as ev
from segue.core.json_values import as_items, as_table, as_text, as_whole
from segue.core.usage import Pays, Usage

DENIED = "Not allowed in this run: "
"""How our own refusal of a tool begins; the CLI returns it as the tool's result."""

_DENIALS = (
    DENIED,
    "Claude requested permissions to",
    "Permission to use ",
    "<tool_use_error>Error: No such tool available",
)
"""How the result of a call begins that never ran because it was refused or the tool is not offered."""
_REFUSALS = ("permission-", "user-rejected", "automode-")
"""The names that new versions give this beside the result."""


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None

    def sent(self) -> Usage:
        """Without the output: while a message is being written, that is only its initial value."""
        return Usage(self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens)


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw()
    tool_use_id: str = ""
    content: msgspec.Raw = msgspec.Raw()
    is_error: bool | None = None


class _Message(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    content: str | list[_Block] | None = None
    usage: _Usage | None = None


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Partial(msgspec.Struct, frozen=True):
    type: str = ""
    delta: _Delta | None = None
    usage: _Usage | None = None


class _NotRun(msgspec.Struct, frozen=True):
    """Why a call did not run."""

    id: str = ""
    non_execution_kind: str = ""


class _Window(msgspec.Struct, frozen=True, rename="camel"):
    utilization: float | None = None
    resets_at: float | None = None


class _Limit(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    resets_at: float | None = None
    rate_limit_type: str | None = None
    utilization: float | None = None
    unified_windows: dict[str, _Window] = {}


class _Trouble(msgspec.Struct, frozen=True):
    rate_limit_info: _Limit | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    subtype: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    api_message_id: str | None = None
    message: _Message | str | None = None
    event: _Partial | None = None
    tool_result_meta: list[_NotRun] = []
    rate_limit_info: _Limit | None = None
    api_error_params: _Trouble | None = None
    model: str | None = None
    cwd: str | None = None
    api_key_source: str | None = msgspec.field(default=None, name="apiKeySource")


_line = msgspec.json.Decoder(_Line)
_any = msgspec.json.Decoder()


def parse(line: bytes) -> Sequence[ev.Event]:
    """One line as events; what cannot be read becomes ``Unknown``."""
    if not line.strip():
        return ()
    try:
        return _read(line)
    except DAMAGE as error:
        return ev.unknown(line, str(error))


def _read(line: bytes) -> Sequence[ev.Event]:
    record = _line.decode(line)
    match record.type:
        case "stream_event":
            return _partial(record)
        case "assistant":
            return _assistant(record)
        case "user":
            return _tool_results(record)
        case "system":
            return _system(record, line)
        case "result":
            return _result(line)
        case "control_request":
            return _control(line)
        case "rate_limit_event":
            return _limit(record.rate_limit_info)
        case "control_response" | "keep_alive" | "tool_progress" | "auth_status":
            return ()
    return ev.unknown(line, f"unknown type {record.type}")


def _partial(record: _Line) -> Sequence[ev.Event]:
    event, side = record.event, bool(record.parent_tool_use_id)
    if event is None:
        return ()
    if event.type == "message_delta" and event.usage is not None and record.api_message_id:
        return (ev.UsageReport(_known(event.usage), None, record.api_message_id, side),)
    if side or event.delta is None or event.delta.type != "text_delta" or not event.delta.text:
        return ()
    return (ev.TextDelta(event.delta.text),)


def _known(usage: _Usage) -> Usage:
    """The usage at the end of a message: it repeats the counters of the start, or has 0 for them."""
    return Usage(
        usage.input_tokens or None,
        usage.cache_read_input_tokens or None,
        usage.cache_creation_input_tokens or None,
        usage.output_tokens,
    )


def _assistant(record: _Line) -> Sequence[ev.Event]:
    message, side = record.message, bool(record.parent_tool_use_id)
    if not isinstance(message, _Message):
        return ()
    trouble = record.api_error_params or _Trouble()
    events: list[ev.Event] = [*_limit(trouble.rate_limit_info)]
    blocks = message.content if isinstance(message.content, list) else [_Block("text", message.content)]
    for block in blocks:
        if block.type == "text" and block.text and not side:
            events.append(ev.Text(block.text))
        elif block.type == "thinking" and block.thinking and not side:
            events.append(ev.Thinking(block.thinking))
        elif block.type in ("tool_use", "server_tool_use"):
            events.append(
                ev.ToolCall(block.id, block.name, _value(block.input), record.parent_tool_use_id or None)
            )
    if message.usage is not None and message.model != "<synthetic>":
        events.append(ev.UsageReport(message.usage.sent(), message.model, message.id, side))
    return events


def _tool_results(record: _Line) -> Sequence[ev.Event]:
    if not isinstance(record.message, _Message) or not isinstance(record.message.content, list):
        return ()
    refused = {each.id for each in record.tool_result_meta if each.non_execution_kind.startswith(_REFUSALS)}
    blocks = (block for block in record.message.content if block.type == "tool_result")
    parent = record.parent_tool_use_id or None
    return [_tool_result(block, block.tool_use_id in refused, parent) for block in blocks]


def _tool_result(block: _Block, refused: bool, parent: str | None) -> ev.ToolResult:
    output = _text(_value(block.content))
    failed = bool(block.is_error)
    denied = failed and (refused or output.startswith(_DENIALS))
    return ev.ToolResult(block.tool_use_id, not failed, output, denied=denied, parent=parent)


def _system(record: _Line, line: bytes) -> Sequence[ev.Event]:
    if record.subtype == "init":
        pays = _pays(record.api_key_source)
        return (ev.Session(record.session_id or "", record.model, record.cwd, pays),)
    if record.subtype == "api_retry":
        return (_retry(_any.decode(line)),)
    if record.subtype == "compact_boundary":
        about = as_table(_any.decode(line).get("compact_metadata"))
        return (ev.Compacted(as_text(about.get("trigger")) or None, as_whole(about.get("pre_tokens"))),)
    return ()


def _pays(source: str | None) -> Pays | None:
    """By the name of what the key came from; without a key, it is a login or a cloud."""
    if source in (None, "", "none"):
        return None
    return "subscription" if source == "oauth" else "api_key"


def _limit(about: _Limit | None) -> Sequence[ev.Event]:
    """How much of each usage limit is used; also a notice, if one is reached."""
    if about is None:
        return ()
    refused = about.status == "rejected"
    windows = dict(about.unified_windows)
    if about.rate_limit_type:
        used = 1.0 if refused else about.utilization
        known = windows.get(about.rate_limit_type, _Window())
        used = known.utilization if used is None else used
        windows[about.rate_limit_type] = _Window(used, about.resets_at or known.resets_at)
    told = [
        ev.LimitReport(_window(name), each.utilization, _ms(each.resets_at)) for name, each in windows.items()
    ]
    return [*told, ev.Notice("the usage limit is reached", _ms(about.resets_at))] if refused else told


def _window(name: str) -> str:
    """``five_hour`` is ``5h``, ``seven_day_opus`` is ``7d_opus``."""
    return name.replace("five_hour", "5h").replace("seven_day", "7d")


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _retry(raw: dict[str, Any]) -> ev.Retry:
    delay = as_whole(raw.get("retry_delay_ms"))
    return ev.Retry(
        as_whole(raw.get("attempt")), as_whole(raw.get("max_retries")), delay, as_text(raw.get("error"))
    )


def _result(line: bytes) -> Sequence[ev.Event]:
    raw = _any.decode(line)
    answer = raw.get("result")
    failed = bool(raw.get("is_error")) or raw.get("subtype") != "success" or not isinstance(answer, str)
    return (ev.End(not failed, None if failed else answer, _complaint(raw) if failed else "", raw),)


def _control(line: bytes) -> Sequence[ev.Event]:
    raw = _any.decode(line)
    request = as_table(raw.get("request"))
    if request.get("subtype") != "can_use_tool":
        return ev.unknown(line, f"unknown control request {request.get('subtype')}")
    key, tool, given = str(raw.get("request_id")), str(request.get("tool_name")), request.get("input")
    call = as_text(request.get("tool_use_id")) or None
    if tool == "AskUserQuestion" and isinstance(given, dict):
        return (ev.Question(key, given.get("questions"), call),)
    return (ev.Permission(key, tool, given, call),)


def _complaint(raw: dict[str, Any]) -> str:
    errors = as_items(raw.get("errors"))
    if errors:
        return "; ".join(str(error) for error in errors)[:2_000]
    return str(raw.get("result") or "")[:2_000]


def _value(raw: msgspec.Raw) -> Any:
    return _any.decode(raw) if bytes(raw) else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(as_text(part.get("text")) for part in value if isinstance(part, dict))
    return as_text(value)
