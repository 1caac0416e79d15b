"""OpenAI Responses: `POST /v1/responses`."""

from collections.abc import Iterator
from itertools import count as counter
from typing import Any

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
    Text,
    Thought,
    Usage,
    slices,
)
from segue.rehearsal.wire import openai
from segue.rehearsal.wire.common import canonical, compact, event, said, text_of

_TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def decode(body: dict[str, Any]) -> Ask:
    given = body.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    system = body.get("instructions") or ""
    head = (canonical(body.get("tools") or []), canonical(system))
    return Ask(
        protocol="responses",
        model=body.get("model", ""),
        stream=bool(body.get("stream")),
        system=system,
        tools=tuple(openai.tools(body.get("tools") or [])),
        items=tuple(item for one in items for item in _items(one)),
        prompt=Prompt(head + tuple(canonical(_rendered(one)) for one in items)),
        messages=len(items),
        max_tokens=body.get("max_output_tokens"),
        schema=((body.get("text") or {}).get("format") or {}).get("schema"),
    )


def _rendered(one: dict[str, Any]) -> dict[str, Any]:
    """The item as the model reads it: without its id, which is only the provider's reference."""
    return {name: value for name, value in one.items() if name != "id"}


def _items(one: dict[str, Any]) -> Iterator[Item]:
    kind = one.get("type", "message")
    if kind == "message":
        role = one.get("role")
        blocks = one.get("content") if isinstance(one.get("content"), list) else [one.get("content")]
        for text in filter(None, map(text_of, blocks or [])):
            yield Item("text", role if role in ("user", "assistant") else "system", text)
    elif kind in _CALLS:
        yield Item(
            "call", "assistant", one.get("arguments") or one.get("input") or "", one.get("call_id") or ""
        )
    elif kind.endswith("_output"):
        yield Item("result", "user", text_of(one.get("output")), one.get("call_id") or "")


def payload(ask: Ask, reply: Reply, usage: Usage, mark: str) -> dict[str, Any]:
    output = [_item(part, f"{mark}{index}") for index, part in enumerate(_parts(reply))]
    whole = _response(ask, mark, "completed") | {"output": output, "usage": _usage(reply, usage)}
    if reply.declined:
        whole |= {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    return whole


def frames(ask: Ask, reply: Reply, usage: Usage, mark: str) -> Iterator[Frame]:
    numbers = counter()

    def frame(kind: str, *, beat: bool = False, **fields: Any) -> Frame:
        return event({"type": kind, "sequence_number": next(numbers), **fields}, name=kind, beat=beat)

    yield frame("response.created", response=_response(ask, mark, "in_progress"))
    yield frame("response.in_progress", response=_response(ask, mark, "in_progress"))
    for index, part in enumerate(_parts(reply)):
        item = _item(part, f"{mark}{index}")
        yield frame("response.output_item.added", output_index=index, item=_begun(item))
        for kind, beat, fields in _progress(part, reply.pieces):
            yield frame(kind, beat=beat, item_id=item["id"], output_index=index, **fields)
        yield frame("response.output_item.done", output_index=index, item=item)
    last = payload(ask, reply, usage, mark)
    yield frame(f"response.{last['status']}", response=last)


def _parts(reply: Reply) -> tuple[Part, ...]:
    """The parts of a reply. An empty answer is a message without text, not a missing message."""
    return reply.parts or (() if reply.declined else (Text(""),))


def refuse(ask: Ask, fault: Fault) -> Refusal:
    return openai.refuse(fault, _TOO_LONG)


def failure(ask: Ask, fault: Fault, mark: str) -> Iterator[Frame]:
    begun = _response(ask, mark, "in_progress")
    yield event(
        {"type": "response.created", "sequence_number": 0, "response": begun}, name="response.created"
    )
    error = refuse(ask, fault).body["error"]
    failed = _response(ask, mark, "failed") | {"error": {"code": error["code"], "message": error["message"]}}
    body = {"type": "response.failed", "sequence_number": 1, "response": failed}
    yield event(body, name="response.failed", beat=True)


def _response(ask: Ask, mark: str, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{mark}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": ask.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
    }


def _item(part: Part, mark: str) -> dict[str, Any]:
    match part:
        case Text(text):
            content = [{"type": "output_text", "text": text, "annotations": []}]
            return {
                "type": "message",
                "id": f"msg_{mark}",
                "status": "completed",
                "role": "assistant",
                "content": content,
            }
        case Thought(text):
            summary = [{"type": "summary_text", "text": text}]
            return {
                "type": "reasoning",
                "id": f"rs_{mark}",
                "summary": summary,
                "encrypted_content": "cmVoZWFyc2Fs",
            }
        case Call():
            return _call(part, mark)


def _call(call: Call, mark: str) -> dict[str, Any]:
    head = {"call_id": f"call_{mark}", "status": "completed"}
    if call.tool.kind == "local_shell":
        action = {"type": "exec", "env": {}, **(call.arguments if isinstance(call.arguments, dict) else {})}
        return {"type": "local_shell_call", "id": f"lsh_{mark}", **head, "action": action}
    given = call.arguments if isinstance(call.arguments, str) else compact(call.arguments)
    if call.tool.kind == "custom":
        return {
            "type": "custom_tool_call",
            "id": f"ctc_{mark}",
            **head,
            "name": call.tool.name,
            "input": given,
        }
    item = {"type": "function_call", "id": f"fc_{mark}", **head, "name": call.tool.name, "arguments": given}
    return item | ({"namespace": call.tool.namespace} if call.tool.namespace else {})


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
    return {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}


def _progress(part: Part, pieces: int | None) -> Iterator[tuple[str, bool, dict[str, Any]]]:
    """The events between an item's beginning and its end: kind, beat, fields."""
    match part:
        case Text(text):
            place: dict[str, Any] = {"content_index": 0}
            blank = {"type": "output_text", "text": "", "annotations": []}
            yield "response.content_part.added", False, place | {"part": blank}
            for piece in slices(text, pieces):
                yield "response.output_text.delta", True, place | {"delta": piece}
            yield "response.output_text.done", False, place | {"text": text}
            yield "response.content_part.done", False, place | {"part": blank | {"text": text}}
        case Thought(text):
            place = {"summary_index": 0}
            summary = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", False, place | {"part": summary}
            for piece in slices(text):
                yield "response.reasoning_summary_text.delta", False, place | {"delta": piece}
            yield "response.reasoning_summary_text.done", False, place | {"text": text}
            yield "response.reasoning_summary_part.done", False, place | {"part": summary | {"text": text}}
        case Call(tool, arguments) if tool.kind != "local_shell":
            given = arguments if isinstance(arguments, str) else compact(arguments)
            custom = tool.kind == "custom"
            kind = "response.custom_tool_call_input" if custom else "response.function_call_arguments"
            for piece in slices(given):
                yield f"{kind}.delta", False, {"delta": piece}
            yield f"{kind}.done", False, {"input" if custom else "arguments": given}


def _usage(reply: Reply, usage: Usage) -> dict[str, Any]:
    thoughts = sum(-(-len(said(part).encode()) // 4) for part in reply.parts if isinstance(part, Thought))
    return {
        "input_tokens": usage.all_input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": thoughts},
        "total_tokens": usage.all_input + usage.output,
    }


_MINUTES = {"m": 1, "h": 60, "d": 1440}


def limit_headers(limits: tuple[Limit, ...], now_s: float) -> dict[str, str]:
    """What a subscriber is told with every answer, about two windows at most."""
    told = {}
    for name, each in zip(("primary", "secondary"), limits, strict=False):
        told[f"{name}-used-percent"] = f"{each.used * 100:g}"
        told[f"{name}-window-minutes"] = str(_minutes(each.window))
        told[f"{name}-reset-at"] = str(each.resets_s(now_s))
    return {f"x-codex-{name}": value for name, value in told.items()}


def usage_told(limits: tuple[Limit, ...], now_s: float) -> dict[str, Any]:
    """The same for a subscriber who asks for it."""
    told = {}
    for name, each in zip(("primary_window", "secondary_window"), limits, strict=False):
        told[name] = {
            "used_percent": round(each.used * 100),
            "limit_window_seconds": _minutes(each.window) * 60,
            "reset_after_seconds": round(each.seconds),
            "reset_at": each.resets_s(now_s),
        }
    full = any(each.used >= 1 for each in limits)
    return {"plan_type": "plus", "rate_limit": {"allowed": not full, "limit_reached": full, **told}}


def _minutes(window: str) -> int:
    return int(window[:-1]) * _MINUTES[window[-1]]
