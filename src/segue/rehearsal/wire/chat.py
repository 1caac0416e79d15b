"""OpenAI-style chat completions: `POST /v1/chat/completions`."""

from collections.abc import Iterator
from typing import Any

from segue.rehearsal.types import (
    Ask,
    Call,
    Fault,
    Frame,
    Item,
    Limit,
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

_TOO_LONG = (
    "This model's maximum context length is 131072 tokens. However, your messages resulted in 250000 tokens."
    " Please reduce the length of the messages."
)


def decode(body: dict[str, Any]) -> Ask:
    messages = body.get("messages") or []
    wanted = (body.get("response_format") or {}).get("json_schema") or {}
    stream = bool(body.get("stream"))
    return Ask(
        protocol="chat",
        model=body.get("model", ""),
        stream=stream,
        system="\n".join(
            text_of(m.get("content")) for m in messages if m.get("role") in ("system", "developer")
        ),
        tools=tuple(openai.tools(body.get("tools") or [])),
        items=tuple(item for message in messages for item in _items(message)),
        prompt=Prompt(
            (canonical(body.get("tools") or []), *map(canonical, messages)),
        ),
        messages=len(messages),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        schema=wanted.get("schema"),
        stream_usage=not stream or bool((body.get("stream_options") or {}).get("include_usage")),
    )


def _items(message: dict[str, Any]) -> Iterator[Item]:
    content = message.get("content")
    match message.get("role"):
        case "tool":
            yield Item("result", "user", text_of(content), message.get("tool_call_id") or "")
        case "assistant":
            yield from (Item("text", "assistant", text) for text in _texts(content))
            for call in message.get("tool_calls") or []:
                yield Item("call", "assistant", call["function"].get("arguments") or "", call.get("id") or "")
        case "user":
            yield from (Item("text", "user", text) for text in _texts(content))
        case _:
            yield Item("text", "system", text_of(content))


def _texts(content: Any) -> list[str]:
    blocks = content if isinstance(content, list) else [content]
    return [text for block in blocks if (text := text_of(block))]


def payload(ask: Ask, reply: Reply, usage: Usage, mark: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": _joined(reply, Text)}
    if thought := _joined(reply, Thought):
        message["reasoning_content"] = thought
    calls = [part for part in reply.parts if isinstance(part, Call)]
    if calls:
        message["tool_calls"] = [_call(call, index, mark) for index, call in enumerate(calls)]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return _head(ask, mark, "chat.completion") | {"choices": [choice], "usage": _usage(reply, usage)}


def frames(ask: Ask, reply: Reply, usage: Usage, mark: str) -> Iterator[Frame]:
    yield _chunk(ask, mark, {"role": "assistant", "content": ""})
    calls = 0
    for part in reply.parts:
        match part:
            case Text(text):
                for piece in slices(text, reply.pieces):
                    yield _chunk(ask, mark, {"content": piece}, beat=True)
            case Thought(text):
                for piece in slices(text):
                    yield _chunk(ask, mark, {"reasoning_content": piece})
            case Call():
                yield _chunk(ask, mark, {"tool_calls": [_call(part, calls, mark)]})
                calls += 1
    yield _chunk(ask, mark, {}, finish=_finish(reply))
    if ask.stream_usage:
        yield event(
            _head(ask, mark, "chat.completion.chunk") | {"choices": [], "usage": _usage(reply, usage)}
        )
    yield Frame(b"data: [DONE]\n\n")


def refuse(ask: Ask, fault: Fault) -> Refusal:
    return openai.refuse(fault, _TOO_LONG)


def failure(ask: Ask, fault: Fault, mark: str) -> Iterator[Frame]:
    yield event(refuse(ask, fault).body, beat=True)


def _head(ask: Ask, mark: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{mark}", "object": kind, "created": 0, "model": ask.model}


def _chunk(
    ask: Ask, mark: str, delta: dict[str, Any], *, finish: str | None = None, beat: bool = False
) -> Frame:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event(_head(ask, mark, "chat.completion.chunk") | {"choices": [choice]}, beat=beat)


def _call(call: Call, index: int, mark: str) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else compact(call.arguments)
    function = {"name": call.tool.name, "arguments": arguments}
    return {"index": index, "id": f"call_{mark}{index}", "type": "function", "function": function}


def _joined(reply: Reply, kind: type[Text] | type[Thought]) -> str:
    return "\n".join(part.text for part in reply.parts if isinstance(part, kind))


def _finish(reply: Reply) -> str:
    if reply.declined:
        return "content_filter"
    return "tool_calls" if any(isinstance(part, Call) for part in reply.parts) else "stop"


def _usage(reply: Reply, usage: Usage) -> dict[str, Any]:
    thoughts = sum(-(-len(said(part).encode()) // 4) for part in reply.parts if isinstance(part, Thought))
    return {
        "prompt_tokens": usage.all_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.all_input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


def limit_headers(limits: tuple[Limit, ...], now_s: float) -> dict[str, str]:
    """This protocol does not tell about usage limits."""
    return {}
