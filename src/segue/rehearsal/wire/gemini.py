"""Gemini: `POST /v1beta/models/{model}:generateContent`, and the same for streaming and counting."""

from collections.abc import Iterator
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
    Role,
    Text,
    Thought,
    Tool,
    Usage,
    slices,
)
from segue.rehearsal.wire.common import canonical, compact, event, said, text_of

_ERRORS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "The model is not found."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred. Please retry."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    529: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
}
_TOO_LONG = "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576)."
_DECLINED = "The prompt was blocked: it may violate our policies (PROHIBITED_CONTENT)."
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def decode(body: dict[str, Any]) -> Ask:
    """`model` and `stream` come from the path: the server adds them to the body."""
    contents = body.get("contents") or []
    config = body.get("generationConfig") or {}
    declared = [one for group in body.get("tools") or [] for one in group.get("functionDeclarations") or []]
    system = body.get("systemInstruction") or {}
    head = (canonical(body.get("tools") or []), canonical(system))
    return Ask(
        protocol="gemini",
        model=body.get("model", ""),
        stream=bool(body.get("stream")),
        system=text_of(system.get("parts") or ""),
        tools=tuple(_tool(one) for one in declared),
        items=tuple(item for content in contents for item in _items(content)),
        prompt=Prompt(head + tuple(canonical(content) for content in contents)),
        messages=len(contents),
        max_tokens=config.get("maxOutputTokens"),
        schema=config.get("responseJsonSchema") or config.get("responseSchema"),
    )


def _tool(one: dict[str, Any]) -> Tool:
    schema = one.get("parametersJsonSchema") or one.get("parameters") or {}
    return Tool(one.get("name", ""), properties=schema.get("properties") or {})


def _items(content: dict[str, Any]) -> Iterator[Item]:
    role: Role = "assistant" if content.get("role") == "model" else "user"
    for part in content.get("parts") or []:
        if (call := part.get("functionCall")) is not None:
            yield Item("call", "assistant", compact(call.get("args")), call.get("id", ""))
        elif (result := part.get("functionResponse")) is not None:
            yield Item("result", "user", compact(result.get("response")), result.get("id", ""))
        elif "text" in part and not part.get("thought"):
            yield Item("text", role, part["text"])


def payload(ask: Ask, reply: Reply, usage: Usage, mark: str) -> dict[str, Any]:
    parts = [_part(part, f"{mark}{index}") for index, part in enumerate(reply.parts)]
    return _chunk(ask, mark, parts, _finish(reply)) | {"usageMetadata": _usage(reply, usage)}


def frames(ask: Ask, reply: Reply, usage: Usage, mark: str) -> Iterator[Frame]:
    for index, part in enumerate(reply.parts):
        if isinstance(part, Text):
            for piece in slices(part.text, reply.pieces):
                yield event(_chunk(ask, mark, [{"text": piece}]), beat=True)
        else:
            yield event(_chunk(ask, mark, [_part(part, f"{mark}{index}")]))
    last = _chunk(ask, mark, [{"text": ""}] if reply.parts else [], _finish(reply))
    yield event(last | {"usageMetadata": _usage(reply, usage)})


def _finish(reply: Reply) -> str:
    return "SAFETY" if reply.declined else "STOP"


def refuse(ask: Ask, fault: Fault) -> Refusal:
    if fault.declined and fault.streamed:  # it is not an error of this protocol
        tokens = -(-ask.prompt.size // 4)
        blocked = {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": tokens, "totalTokenCount": tokens},
            "modelVersion": ask.model,
        }
        return Refusal(200, blocked, {})
    status, message = _ERRORS.get(fault.status, ("UNKNOWN", "Error"))
    error: dict[str, Any] = {
        "code": fault.status,
        "message": _TOO_LONG if fault.context else _DECLINED if fault.declined else message,
        "status": status,
    }
    headers = {}
    if fault.retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{fault.retry_after:g}s"}]
        headers = {"retry-after": f"{fault.retry_after:g}"}
    return Refusal(fault.status, {"error": error}, headers)


def failure(ask: Ask, fault: Fault, mark: str) -> Iterator[Frame]:
    yield event(refuse(ask, fault).body, beat=True)


def count(tokens: int) -> dict[str, Any]:
    return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}


def _chunk(ask: Ask, mark: str, parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": ask.model, "responseId": mark}


def _part(part: Part, mark: str) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"text": text}
        case Thought(text):
            return {"text": text, "thought": True}
        case Call(tool, arguments):
            return {"functionCall": {"id": f"call_{mark}", "name": tool.name, "args": arguments}}


def _usage(reply: Reply, usage: Usage) -> dict[str, Any]:
    """Thoughts are counted separately from the candidates."""
    thoughts = sum(-(-len(said(part).encode()) // 4) for part in reply.parts if isinstance(part, Thought))
    figures = {
        "promptTokenCount": usage.all_input,
        "candidatesTokenCount": usage.output - thoughts,
        "totalTokenCount": usage.all_input + usage.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.all_input}],
    }
    if usage.cache_read:
        figures["cachedContentTokenCount"] = usage.cache_read
    if thoughts:
        figures["thoughtsTokenCount"] = thoughts
    return figures


def limit_headers(limits: tuple[Limit, ...], now_s: float) -> dict[str, str]:
    """This protocol does not tell about usage limits."""
    return {}
