"""Anthropic Messages: `POST /v1/messages`."""

from collections.abc import Iterator
from typing import Any

from segue.rehearsal.cache import LIFE, LONG_LIFE
from segue.rehearsal.types import (
    Ask,
    Call,
    Fault,
    Frame,
    Item,
    Limit,
    Part,
    Prompt,
    Refusal,
    Reply,
    Role,
    Text,
    Thought,
    Tool,
    Usage,
    slices,
)
from segue.rehearsal.wire.common import canonical, compact, event, text_of

_ERRORS = {
    400: ("invalid_request_error", "messages: the request is not valid"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service temporarily unavailable"),
    529: ("overloaded_error", "Overloaded"),
}
_TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum"
_DECLINED = "Output blocked by content filtering policy"
_SIGNATURE = "cmVoZWFyc2Fs"


def decode(body: dict[str, Any]) -> Ask:
    messages = body.get("messages") or []
    system = body.get("system") or []
    schema = ((body.get("output_config") or {}).get("format") or body.get("output_format") or {}).get(
        "schema"
    )
    return Ask(
        protocol="anthropic",
        model=body.get("model", ""),
        stream=bool(body.get("stream")),
        system=text_of(system),
        tools=tuple(_tool(tool) for tool in body.get("tools") or []),
        items=tuple(item for message in messages for item in _items(message)),
        prompt=_prompt(body.get("tools") or [], system, messages),
        messages=len(messages),
        max_tokens=body.get("max_tokens"),
        schema=schema,
    )


def _tool(tool: dict[str, Any]) -> Tool:
    return Tool(tool.get("name", ""), properties=(tool.get("input_schema") or {}).get("properties") or {})


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _items(message: dict[str, Any]) -> Iterator[Item]:
    named = message.get("role")
    role: Role = named if named in ("user", "assistant") else "system"
    for block in _blocks(message.get("content")):
        match block.get("type"):
            case "text":
                yield Item("text", role, block.get("text", ""))
            case "tool_use":
                yield Item("call", "assistant", compact(block.get("input")), block.get("id", ""))
            case "tool_result":
                yield Item("result", "user", text_of(block.get("content")), block.get("tool_use_id", ""))


def _prompt(tools: list[dict[str, Any]], system: Any, messages: list[dict[str, Any]]) -> Prompt:
    """Tools, then system, then the messages' blocks. `cache_control` itself is not part of the prompt."""
    # Claude Code's billing line is not part of the prompt: it changes every run, and the service removes it
    pieces = [("tool", tool) for tool in tools]
    pieces += [("system", block) for block in _blocks(system) if not _is_billing(block)]
    pieces += [(m.get("role", ""), block) for m in messages for block in _blocks(m.get("content"))]
    marks = {}
    segments = []
    for index, (place, block) in enumerate(pieces):
        if control := block.get("cache_control"):
            marks[index] = LONG_LIFE if control.get("ttl") == "1h" else LIFE
        bare = {name: value for name, value in block.items() if name != "cache_control"}
        segments.append(canonical([place, bare]))
    return Prompt(tuple(segments), marks)


def _is_billing(block: dict[str, Any]) -> bool:
    return str(block.get("text", "")).startswith("x-anthropic-billing-header:")


def payload(ask: Ask, reply: Reply, usage: Usage, mark: str) -> dict[str, Any]:
    content = [_block(part, f"{mark}{index}") for index, part in enumerate(reply.parts)]
    return _message(ask, usage, mark) | {
        "content": content,
        "stop_reason": _stop_reason(reply),
        "usage": _usage(usage, usage.output),
    }


def frames(ask: Ask, reply: Reply, usage: Usage, mark: str) -> Iterator[Frame]:
    yield _event("message_start", message=_message(ask, usage, mark))
    yield _event("ping")
    for index, part in enumerate(reply.parts):
        yield _event("content_block_start", index=index, content_block=_opening(part, f"{mark}{index}"))
        for delta in _deltas(part, reply.pieces):
            beat = isinstance(part, Text)
            yield _event("content_block_delta", beat=beat, index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": usage.output})
    yield _event("message_stop")


def refuse(ask: Ask, fault: Fault) -> Refusal:
    kind, message = _ERRORS.get(fault.status, ("api_error", "Error"))
    error = {
        "type": kind,
        "message": _TOO_LONG if fault.context else _DECLINED if fault.declined else message,
    }
    headers = {"retry-after": f"{fault.retry_after:g}"} if fault.retry_after is not None else {}
    body = {"type": "error", "error": error, "request_id": "req_rehearsal"}
    return Refusal(fault.status, body, {"request-id": "req_rehearsal", **headers})


def failure(ask: Ask, fault: Fault, mark: str) -> Iterator[Frame]:
    yield _event("message_start", message=_message(ask, Usage(), mark))
    yield event(refuse(ask, fault).body, name="error", beat=True)


def count(tokens: int) -> dict[str, Any]:
    return {"input_tokens": tokens}


def _event(kind: str, *, beat: bool = False, **fields: Any) -> Frame:
    return event({"type": kind, **fields}, name=kind, beat=beat)


def _message(ask: Ask, usage: Usage, mark: str) -> dict[str, Any]:
    return {
        "id": f"msg_{mark}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(usage, 1),
    }


def _usage(usage: Usage, output: int) -> dict[str, Any]:
    short, long = (0, usage.cache_write) if usage.long_write else (usage.cache_write, 0)
    return {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": output,
        "service_tier": "standard",
    }


def _stop_reason(reply: Reply) -> str:
    if reply.declined:
        return "refusal"
    return "tool_use" if any(isinstance(part, Call) for part in reply.parts) else "end_turn"


def _block(part: Part, mark: str) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thought(text):
            return {"type": "thinking", "thinking": text, "signature": _SIGNATURE}
        case Call(tool, arguments):
            return {"type": "tool_use", "id": f"toolu_{mark}", "name": tool.name, "input": arguments}


def _opening(part: Part, mark: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"text": ""} if isinstance(part, Text) else {"thinking": "", "signature": ""}
    return _block(part, mark) | ({"input": {}} if isinstance(part, Call) else empty)


def _deltas(part: Part, pieces: int | None) -> Iterator[dict[str, Any]]:
    match part:
        case Text(text):
            yield from ({"type": "text_delta", "text": piece} for piece in slices(text, pieces))
        case Thought(text):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in slices(text))
            yield {"type": "signature_delta", "signature": _SIGNATURE}
        case Call(_, arguments):
            whole = compact(arguments)
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in slices(whole))


_CLAIMS = {"5h": "five_hour", "7d": "seven_day"}
_WARNS = 0.75


def limit_headers(limits: tuple[Limit, ...], now_s: float) -> dict[str, str]:
    """What a subscriber is told with every answer. The limit with the largest share is the representative."""
    most = max(limits, key=lambda each: each.used)
    status = "rejected" if most.used >= 1 else "allowed_warning" if most.used >= _WARNS else "allowed"
    told = {
        "status": status,
        "reset": str(most.resets_s(now_s)),
        "representative-claim": _CLAIMS.get(most.window, most.window),
    }
    for each in limits:
        told[f"{each.window}-utilization"] = f"{each.used:g}"
        told[f"{each.window}-reset"] = str(each.resets_s(now_s))
        if each.used >= _WARNS:
            told[f"{each.window}-surpassed-threshold"] = f"{_WARNS:g}"
    return {f"anthropic-ratelimit-unified-{name}": value for name, value in told.items()}
