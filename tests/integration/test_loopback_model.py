"""The loopback model over real HTTP: every protocol, whole and streamed, well and broken."""

import gzip
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import zstandard

from segue.rehearsal.server import LoopbackModel

Body = dict[str, Any]
Made = Callable[[list[tuple[str, str]], bool], tuple[str, Body]]


@pytest.fixture(scope="module")
def running() -> Iterator[LoopbackModel]:
    with LoopbackModel() as model:
        yield model


@pytest.fixture
def model(running: LoopbackModel) -> LoopbackModel:
    running.reset()
    return running


def send(
    model: LoopbackModel,
    path: str,
    body: Body | bytes,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, raw, {"authorization": f"Bearer {model.key}", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read().decode(), {k.lower(): v for k, v in response.getheaders()}
    finally:
        connection.close()


def anthropic(told: list[tuple[str, str]], stream: bool) -> tuple[str, Body]:
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks: list[Body] = [{"type": "text", "text": text} for _, text in told]
    blocks[-1] |= mark
    messages = [{"role": role, "content": [block]} for (role, _), block in zip(told, blocks, strict=True)]
    return "/v1/messages", {"model": "m", "stream": stream, "system": "s", "messages": messages}


def responses(told: list[tuple[str, str]], stream: bool) -> tuple[str, Body]:
    items = [
        {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
        for role, text in told
    ]
    return "/v1/responses", {"model": "m", "stream": stream, "instructions": "s", "input": items}


def chat(told: list[tuple[str, str]], stream: bool) -> tuple[str, Body]:
    messages = [{"role": role, "content": text} for role, text in told]
    options = {"stream_options": {"include_usage": True}} if stream else {}
    return "/v1/chat/completions", {"model": "m", "stream": stream, "messages": messages, **options}


def gemini(told: list[tuple[str, str]], stream: bool) -> tuple[str, Body]:
    contents = [
        {"role": "user" if role == "user" else "model", "parts": [{"text": text}]} for role, text in told
    ]
    return f"/v1beta/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}", {
        "contents": contents
    }


WIRES = pytest.mark.parametrize("made", [anthropic, responses, chat, gemini])
STREAM = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def figures(text: str) -> dict[str, int]:
    """The last value of every token counter in an answer."""
    found: dict[str, int] = {}

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if isinstance(inner, int) and "oken" in name:
                    found[name] = inner
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    for line in text.splitlines():
        data = line.removeprefix("data: ")
        if data.startswith("{"):
            walk(json.loads(data))
    return found


@WIRES
@STREAM
def test_it_recalls_what_the_request_carries_and_nothing_else(
    model: LoopbackModel, made: Made, stream: bool
) -> None:
    first = [("user", "remember number 456")]
    assert "Noted: 456." in send(model, *made(first, stream))[1]
    asked = ("user", "what number?")
    assert '"456"' in send(model, *made([*first, ("assistant", "Noted."), asked], stream))[1]
    assert "I do not know" in send(model, *made([asked], False))[1]


@WIRES
@STREAM
def test_usage_over_three_turns_adds_up_and_is_what_the_log_says(
    model: LoopbackModel, made: Made, stream: bool
) -> None:
    told: list[tuple[str, str]] = []
    for turn in range(3):
        told.append(("user", f"turn {turn} " + "word " * 2000))
        _, text, _ = send(model, *made(told, stream))
        request, said = model.requests[-1], figures(text)
        spent = request.usage
        everything = spent.input + spent.cache_read + spent.cache_write
        assert everything == -(-request.bytes // 4)
        if made is anthropic:
            assert (said["input_tokens"], said["cache_read_input_tokens"]) == (spent.input, spent.cache_read)
            assert said["cache_creation_input_tokens"] == spent.cache_write
        elif made is gemini:
            assert said["promptTokenCount"] == everything
            assert said.get("cachedContentTokenCount", 0) == spent.cache_read
        else:
            assert said["prompt_tokens" if made is chat else "input_tokens"] == everything
            assert said["cached_tokens"] == spent.cache_read
        assert (spent.cache_read > 2000 * turn) if turn else spent.cache_read == 0
        assert request.new_bytes < 11_000
        told.append(("assistant", "Understood."))


@WIRES
@STREAM
@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503, 529])
def test_refusals(model: LoopbackModel, made: Made, stream: bool, status: int) -> None:
    got, text, headers = send(model, *made([("user", f"[[error {status} retry-after 7]]")], stream))
    assert got == status
    assert "error" in json.loads(text)
    assert headers["retry-after"] == "7"
    assert model.requests[-1].status == status
    assert model.requests[-1].usage.input == 0


@WIRES
def test_a_refusal_can_give_way(model: LoopbackModel, made: Made) -> None:
    asked = made([("user", "[[error 500 times 1]] [[say fine]]")], True)
    assert send(model, *asked)[0] == 500
    assert "fine" in send(model, *asked)[1]


@WIRES
@STREAM
def test_a_dropped_connection(model: LoopbackModel, made: Made, stream: bool) -> None:
    with pytest.raises(http.client.IncompleteRead) as caught:
        send(model, *made([("user", "[[say one two three four five six seven eight]] [[drop]]")], stream))
    assert len(caught.value.partial) > 100
    if stream:
        assert b"one two" in caught.value.partial
        assert b"eight" not in caught.value.partial


@WIRES
@STREAM
@pytest.mark.parametrize("how", ["", " start"])
def test_a_malformed_answer(model: LoopbackModel, made: Made, stream: bool, how: str) -> None:
    status, text, _ = send(model, *made([("user", f"[[malformed{how}]]")], stream))
    assert status == 200
    lines = [
        line.removeprefix("data: ") for line in text.splitlines() if line and not line.startswith("event: ")
    ]
    with pytest.raises(json.JSONDecodeError):
        json.loads(lines[-1])


@WIRES
def test_context_full(model: LoopbackModel, made: Made) -> None:
    assert send(model, *made([("user", "[[context-full]]")], True))[0] == 400
    assert model.requests[-1].action == "context-full"


def test_context_full_inside_a_stream(model: LoopbackModel) -> None:
    status, text, _ = send(model, *responses([("user", "[[context-full stream]]")], True))
    assert status == 200
    assert '"response.failed"' in text
    assert '"context_length_exceeded"' in text


@WIRES
def test_slow_is_spread_over_the_time(model: LoopbackModel, made: Made) -> None:
    began = time.monotonic()
    send(model, *made([("user", "[[slow 0.4 4]] [[say abcdefgh]]")], True))
    assert 0.35 < time.monotonic() - began < 3


@WIRES
def test_empty_and_huge(model: LoopbackModel, made: Made) -> None:
    assert send(model, *made([("user", "[[empty]]")], True))[0] == 200
    assert model.requests[-1].usage.output == 0
    _, text, _ = send(model, *made([("user", "[[huge 1000000]]")], True))
    assert len(text) > 1_000_000
    assert model.requests[-1].usage.output == 250_000


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_compressed_bodies(model: LoopbackModel, encoding: str) -> None:
    path, body = responses([("user", "[[say squeezed]]")], False)
    raw = json.dumps(body).encode()
    packed = zstandard.ZstdCompressor().compress(raw) if encoding == "zstd" else gzip.compress(raw)
    assert "squeezed" in send(model, path, packed, headers={"content-encoding": encoding})[1]
    assert send(model, path, b"not packed at all", headers={"content-encoding": encoding})[0] == 400


def test_zstd_streams_of_unknown_size(model: LoopbackModel) -> None:
    path, body = responses([("user", "[[say squeezed]]")], False)
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(json.dumps(body).encode()) + packer.flush()
    assert "squeezed" in send(model, path, packed, headers={"content-encoding": "zstd"})[1]


def test_counting_and_everything_else_is_harmless(model: LoopbackModel) -> None:
    _, body = anthropic([("user", "hello")], False)
    assert json.loads(send(model, "/v1/messages/count_tokens", body)[1])["input_tokens"] > 5
    _, body = gemini([("user", "hello")], False)
    assert json.loads(send(model, "/v1beta/models/m:countTokens", body)[1])["totalTokens"] > 5
    assert json.loads(send(model, "/v1/models", b"", "GET")[1])["object"] == "list"
    assert send(model, "/", b"", "HEAD")[0] == 200
    assert send(model, "/api/event_logging/batch", {})[0] == 200
    assert send(model, "/v1/messages", b"[]")[0] == 400
    assert all(request.side for request in model.requests)


def test_the_log_is_kept_served_written_and_free_of_keys(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with LoopbackModel(log=log) as model:
        send(model, *chat([("user", "[[say hi]]")], False))
        served = json.loads(send(model, "/rehearsal/log", b"", "GET")[1])
        assert served == [json.loads(line) for line in log.read_text().splitlines()]
        assert [(r["n"], r["action"], r["last_user_text"]) for r in served] == [(1, "say", "[[say hi]]")]
        assert served[0]["body"]["messages"][0]["content"] == "[[say hi]]"
        assert model.key not in log.read_text()
        send(model, "/rehearsal/reset", b"")
        assert model.requests == []


def test_bodies_can_be_left_out_of_the_log() -> None:
    with LoopbackModel(log_bodies=False) as model:
        send(model, *chat([("user", "hi")], False))
        assert model.requests[0].body is None


def test_a_scenario_file(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    scenario.write_text('[[rule]]\ntext = "hi"\nprotocol = "chat"\ndo = "[[say from the scenario]]"\n')
    with LoopbackModel(scenario=scenario) as model:
        assert "from the scenario" in send(model, *chat([("user", "hi")], False))[1]
        assert "Understood." in send(model, *gemini([("user", "hi")], False))[1]


def test_stopping_is_quick_while_a_client_hangs() -> None:
    with LoopbackModel() as model:
        path, body = anthropic([("user", "[[hang]]")], True)
        raw = json.dumps(body).encode()
        client = socket.create_connection(("127.0.0.1", model.port))
        client.sendall(
            f"POST {path}?key={model.key} HTTP/1.1\r\nhost: localhost\r\n"
            f"content-length: {len(raw)}\r\n\r\n".encode()
            + raw
        )
        while not model.requests:
            time.sleep(0.01)
        began = time.monotonic()
    assert time.monotonic() - began < 0.5
    client.close()


def test_connections_are_kept_and_many_may_ask_at_once(model: LoopbackModel) -> None:
    def several() -> None:
        connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)
        for _ in range(5):
            path, body = chat([("user", "hello")], True)
            connection.request("POST", path, json.dumps(body), {"x-api-key": model.key})
            assert "Understood." in connection.getresponse().read().decode()
        connection.close()

    threads = [threading.Thread(target=several) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [request.n for request in model.requests] == list(range(1, 21))


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "segue.rehearsal.server", "--port", "0", "--log", str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        connection = http.client.HTTPConnection(urlsplit(told["url"]).netloc, timeout=10)
        connection.request("GET", "/v1/models", headers={"authorization": f"Bearer {told['key']}"})
        assert connection.getresponse().status == 200
        connection.close()
        process.terminate()
        assert process.wait(5) == 0


KEYED: list[tuple[str, Callable[[str], dict[str, str]]]] = [
    ("", lambda key: {"authorization": f"Bearer {key}"}),
    ("", lambda key: {"Authorization": f"bearer {key}"}),
    ("", lambda key: {"x-api-key": key}),
    ("", lambda key: {"x-goog-api-key": key}),
    ("?key={key}", lambda key: {}),
]


@WIRES
@pytest.mark.parametrize(("query", "headers"), KEYED)
def test_only_who_has_the_key_is_answered(
    model: LoopbackModel, made: Made, query: str, headers: Callable[[str], dict[str, str]]
) -> None:
    path, body = made([("user", "[[say something secret]]")], False)
    for key, status in ((model.key, 200), (model.key + "x", 401), ("", 401), ("no-key-is-needed-here", 401)):
        answer = knock(model, path + query.format(key=key), headers(key), body)
        assert (answer[0], "something secret" in answer[1]) == (status, status == 200)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "path", ["/rehearsal/log", "/v1/models", "/rehearsal/reset", "/v1/messages/count_tokens"]
)
def test_what_the_model_knows_needs_the_key_too(model: LoopbackModel, path: str) -> None:
    send(model, *chat([("user", "something secret")], False))
    for method in ("GET", "POST"):
        status, told = knock(model, path, {}, {}, method)
        assert (status, "secret" in told) == (401, False)
    assert len(model.requests) == 1


def test_elsewhere_everybody_gets_an_empty_answer_that_nobody_notes(model: LoopbackModel) -> None:
    assert knock(model, "/", {}, {}, "HEAD") == (200, "")
    assert knock(model, "/api/event_logging/batch", {}, {}) == (200, "{}")
    assert model.requests == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("", 403),
    ],
)
def test_a_name_that_is_not_loopback_is_refused_whatever_key_it_has(
    model: LoopbackModel, host: str, status: int
) -> None:
    headers = {"host": host.format(port=model.port), "authorization": f"Bearer {model.key}"}
    assert knock(model, "/rehearsal/log", headers, {}, "GET")[0] == status


def test_each_run_has_a_key_of_its_own_and_a_log_that_only_its_user_can_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with LoopbackModel(log=log) as one, LoopbackModel() as other:
        assert one.key != other.key
        assert knock(other, "/v1/models", {"x-api-key": one.key}, {}, "GET")[0] == 401
        send(one, *chat([("user", "hi")], False))
    assert log.stat().st_mode & 0o077 == 0


def knock(
    model: LoopbackModel, path: str, headers: dict[str, str], body: Body, method: str = "POST"
) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)
    try:
        connection.request(method, path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_the_package_imports_nothing_heavy() -> None:
    code = "import sys, segue.rehearsal.stage; print('uvicorn' in sys.modules, 'starlette' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
        == ["False"] * 2
    )
