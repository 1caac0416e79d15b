"""The four wires: what a request is understood as, and how an answer or a refusal is worded."""

import json
from typing import Any

import pytest

from segue.rehearsal.cache import LIFE, LONG_LIFE
from segue.rehearsal.respond import Wire
from segue.rehearsal.types import Call, Fault, Frame, Item, Reply, Text, Thought, Tool, Usage, slices
from segue.rehearsal.wire import anthropic, chat, gemini, responses
from tests.unit.rehearsal.asks import ask

HISTORY = (
    Item("text", "user", "hi"),
    Item("text", "assistant", "hello"),
    Item("call", "assistant", '{"command":"ls"}', "c1"),
    Item("result", "user", "a.txt", "c1"),
)
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}

ANTHROPIC: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "system": [{"type": "text", "text": "Be good.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "Bash", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "x"},
                {"type": "text", "text": "hello"},
                {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}]},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "instructions": "Be good.",
    "tools": [{"type": "function", "name": "Bash", "parameters": SCHEMA}],
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
        {"type": "function_call", "call_id": "c1", "name": "Bash", "arguments": '{"command":"ls"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    ],
}
CHAT: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "Bash", "parameters": SCHEMA}}],
    "messages": [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "hello",
            "tool_calls": [{"id": "c1", "function": {"name": "Bash", "arguments": '{"command":"ls"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    ],
}
GEMINI: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "systemInstruction": {"parts": [{"text": "Be good."}]},
    "tools": [{"functionDeclarations": [{"name": "Bash", "parametersJsonSchema": SCHEMA}]}],
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "hello"},
                {"functionCall": {"id": "c1", "name": "Bash", "args": {"command": "ls"}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c1", "name": "Bash", "response": {"output": "a.txt"}}}],
        },
    ],
}
WIRES: list[tuple[Wire, dict[str, Any]]] = [
    (anthropic, ANTHROPIC),
    (responses, RESPONSES),
    (chat, CHAT),
    (gemini, GEMINI),
]
NAMES = ["anthropic", "responses", "chat", "gemini"]
USAGE = Usage(input=10, cache_read=20, cache_write=30, output=5)
BASH = Tool("Bash")
FULL = Reply((Thought("hm"), Text("some words to say"), Call(BASH, {"command": "ls"})), pieces=4)


@pytest.mark.parametrize(("wire", "body"), WIRES, ids=NAMES)
def test_a_request_is_understood_alike_on_every_wire(wire: Wire, body: dict[str, Any]) -> None:
    understood = wire.decode(body)
    spoken = [item for item in understood.items if item.role != "system"]
    assert [(i.kind, i.role, i.call_id) for i in spoken] == [(i.kind, i.role, i.call_id) for i in HISTORY]
    assert all(wanted.text in item.text for item, wanted in zip(spoken, HISTORY, strict=True))
    assert understood.system == "Be good."
    assert [(tool.name, list(tool.properties)) for tool in understood.tools] == [("Bash", ["command"])]
    assert (understood.model, understood.stream) == ("m", True)


@pytest.mark.parametrize(("wire", "body"), WIRES, ids=NAMES)
def test_an_empty_body_is_understood_too(wire: Wire, body: dict[str, Any]) -> None:
    assert wire.decode({}).items == ()


def test_anthropic_marks_and_order() -> None:
    hi = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    body = ANTHROPIC | {
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1"},
            {"type": "text", "text": "Be good.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ],
        "messages": [{"role": "user", "content": [hi]}],
    }
    prompt = anthropic.decode(body).prompt
    assert prompt.marks == {1: LONG_LIFE, 2: LIFE}
    assert [b"Bash" in prompt.segments[0], b"Be good" in prompt.segments[1], b"hi" in prompt.segments[2]] == [
        True
    ] * 3
    assert b"cache_control" not in b"".join(prompt.segments)


def test_responses_knows_namespaces_free_text_tools_and_the_built_in_shell() -> None:
    declared = [
        {"type": "local_shell"},
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "look"}]},
        {"type": "web_search"},
    ]
    tools = responses.decode({"tools": declared}).tools
    assert [(t.name, t.kind, t.namespace) for t in tools] == [
        ("local_shell", "local_shell", ""),
        ("apply_patch", "custom", ""),
        ("look", "function", "mcp"),
    ]
    items = responses.payload(ask(), Reply(tuple(Call(tool, {}) for tool in tools)), Usage(), "x")["output"]
    assert [item["type"] for item in items] == ["local_shell_call", "custom_tool_call", "function_call"]
    assert items[2]["namespace"] == "mcp"


def datas(frames: list[Frame]) -> list[Any]:
    lines = b"".join(frame.data for frame in frames).decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@pytest.mark.parametrize(("wire", "body"), WIRES, ids=NAMES)
def test_the_stream_says_what_the_payload_says(wire: Wire, body: dict[str, Any]) -> None:
    asked = wire.decode(body)
    frames = list(wire.frames(asked, FULL, USAGE, "x"))
    streamed = json.dumps(datas(frames))
    assert sum(frame.beat for frame in frames) == 4
    for piece in ("hm", *slices("some words to say", 4), "Bash"):
        assert json.dumps(piece)[1:-1] in streamed
    whole = json.dumps(wire.payload(asked, FULL, USAGE, "x"))
    assert "some words to say" in whole
    assert "hm" in whole


def test_usage_takes_each_providers_form() -> None:
    a = anthropic.payload(ask(), FULL, USAGE, "x")["usage"]
    assert (a["input_tokens"], a["cache_read_input_tokens"], a["cache_creation_input_tokens"]) == (10, 20, 30)
    r = responses.payload(ask(), FULL, USAGE, "x")["usage"]
    assert (r["input_tokens"], r["input_tokens_details"]["cached_tokens"], r["output_tokens"]) == (60, 20, 5)
    c = chat.payload(ask(), FULL, USAGE, "x")["usage"]
    assert (c["prompt_tokens"], c["prompt_tokens_details"]["cached_tokens"], c["completion_tokens"]) == (
        60,
        20,
        5,
    )
    g = gemini.payload(ask(), FULL, USAGE, "x")["usageMetadata"]
    assert (g["promptTokenCount"], g["cachedContentTokenCount"]) == (60, 20)
    assert (g["candidatesTokenCount"], g["thoughtsTokenCount"], g["totalTokenCount"]) == (4, 1, 65)


def test_chat_tells_its_usage_in_a_stream_only_when_asked() -> None:
    asked = chat.decode(CHAT | {"stream_options": {"include_usage": True}})
    assert datas(list(chat.frames(asked, FULL, USAGE, "x")))[-1]["usage"]["prompt_tokens"] == 60
    assert all("usage" not in data for data in datas(list(chat.frames(chat.decode(CHAT), FULL, USAGE, "x"))))


REFUSALS: list[tuple[Wire, Fault, list[str]]] = [
    (anthropic, Fault(400, context=True), ["invalid_request_error", "prompt is too long: 250000 tokens"]),
    (anthropic, Fault(401), ["authentication_error", "invalid x-api-key"]),
    (anthropic, Fault(403), ["permission_error"]),
    (anthropic, Fault(429, retry_after=2), ["rate_limit_error"]),
    (anthropic, Fault(529), ["overloaded_error", "Overloaded"]),
    (responses, Fault(400, context=True), ["context_length_exceeded"]),
    (responses, Fault(429, retry_after=2), ["rate_limit_exceeded", "try again in 2s"]),
    (chat, Fault(400, context=True), ["This model's maximum context length is"]),
    (chat, Fault(401), ["invalid_api_key"]),
    (chat, Fault(500), ["server_error"]),
    (gemini, Fault(400, context=True), ["INVALID_ARGUMENT", "The input token count ("]),
    (gemini, Fault(429, retry_after=2), ["RESOURCE_EXHAUSTED", '"retryDelay": "2s"']),
    (gemini, Fault(503), ["UNAVAILABLE"]),
]


@pytest.mark.parametrize(("wire", "fault", "words"), REFUSALS)
def test_refusals_are_worded_as_each_provider_does(wire: Wire, fault: Fault, words: list[str]) -> None:
    refusal = wire.refuse(ask(), fault)
    assert refusal.status == fault.status
    assert all(word in json.dumps(refusal.body) for word in words)
    assert refusal.headers.get("retry-after") == ("2" if fault.retry_after else None)


def test_responses_can_fail_inside_the_stream() -> None:
    *_, failed = datas(list(responses.failure(ask(), Fault(400, context=True, streamed=True), "x")))
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == "context_length_exceeded"


SLICES = [("abcdef", 3, ["ab", "cd", "ef"]), ("ab", 9, ["a", "b"]), ("", 3, []), ("", None, [])]


@pytest.mark.parametrize(("text", "pieces", "expected"), SLICES)
def test_slices(text: str, pieces: int | None, expected: list[str]) -> None:
    assert slices(text, pieces) == expected
