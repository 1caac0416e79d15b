"""The HTTP face of the loopback model: which path speaks which wire, and what is kept between requests."""

import gzip
import uuid
from functools import partial
from typing import Any

import msgspec
import zstandard
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.rehearsal.cache import Cache, Served, tokens
from segue.rehearsal.log import Log, Spent
from segue.rehearsal.perform import Wire, perform
from segue.rehearsal.scenario import Scenario
from segue.rehearsal.script import Script
from segue.rehearsal.talk import Fault, Reply, Usage
from segue.rehearsal.wire import anthropic, chat, gemini, responses
from segue.rehearsal.wire.common import said

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_MODELS = {"object": "list", "data": [{"id": "rehearsal", "object": "model"}], "models": []}


class Stage:
    """Everything the server keeps: the log, the prompt cache and the script's counters."""

    def __init__(self, log: Log, scenario: Scenario | None = None, cache: Cache | None = None) -> None:
        self.log = log
        self.cache = cache or Cache()
        self.script = Script(scenario)

    def reset(self) -> None:
        self.log.clear()
        self.cache.clear()
        self.script.clear()


def build(stage: Stage) -> Starlette:
    post = ["POST"]
    return Starlette(
        routes=[
            Route("/v1/messages", partial(_call, stage, anthropic), methods=post),
            Route("/v1/messages/count_tokens", partial(_count, stage), methods=post),
            Route("/v1/responses", partial(_call, stage, responses), methods=post),
            Route("/v1/chat/completions", partial(_call, stage, chat), methods=post),
            Route("/v1beta/models/{call}", partial(_gemini, stage), methods=post),
            Route("/v1/models", _models, methods=["GET"]),
            Route("/rehearsal/log", partial(_log, stage), methods=["GET"]),
            Route("/rehearsal/reset", partial(_reset, stage), methods=post),
            Route("/{rest:path}", partial(_anything, stage), methods=_METHODS),
        ]
    )


async def _call(stage: Stage, wire: Wire, request: Request) -> Response:
    body = await _body(request)
    return _bad_body() if body is None else await _answer(stage, wire, request, body)


async def _gemini(stage: Stage, request: Request) -> Response:
    """Gemini names the model and the way of answering in the path."""
    body = await _body(request)
    if body is None:
        return _bad_body()
    model, _, verb = request.path_params["call"].partition(":")
    if verb == "countTokens":
        return _counted(stage, gemini, request, body.get("generateContentRequest") or body)
    return await _answer(
        stage, gemini, request, body | {"model": model, "stream": verb == "streamGenerateContent"}
    )


async def _count(stage: Stage, request: Request) -> Response:
    body = await _body(request)
    return _bad_body() if body is None else _counted(stage, anthropic, request, body)


async def _models(request: Request) -> Response:
    return JSONResponse(_MODELS)


async def _log(stage: Stage, request: Request) -> Response:
    return Response(msgspec.json.encode(stage.log.requests), media_type="application/json")


async def _reset(stage: Stage, request: Request) -> Response:
    stage.reset()
    return JSONResponse({})


async def _anything(stage: Stage, request: Request) -> Response:
    stage.log.add(path=request.url.path, side=True)
    return JSONResponse({})


async def _answer(stage: Stage, wire: Wire, request: Request, body: dict[str, Any]) -> Response:
    ask = wire.decode(body)
    scene = stage.script.act(ask)
    served, usage = Served(Usage(), ask.prompt.size), Usage()
    if isinstance(scene.action, Reply):
        served = stage.cache.serve(ask)
        usage = replace(served.usage, output=sum(tokens(len(said(p).encode())) for p in scene.action.parts))
    stage.log.add(
        path=request.url.path,
        protocol=ask.protocol,
        model=ask.model,
        size=ask.prompt.size,
        new_bytes=served.new_bytes,
        side=scene.side,
        status=scene.action.status if isinstance(scene.action, Fault) and not scene.action.streamed else 200,
        action=scene.name,
        usage=Spent(usage.input, usage.cache_read, usage.cache_write, usage.output),
        text=scene.text,
        messages=ask.messages,
        body=body,
    )
    return await perform(request, wire, ask, scene.action, usage, uuid.uuid4().hex[:20])


def _counted(stage: Stage, wire: Any, request: Request, body: dict[str, Any]) -> Response:
    ask = wire.decode(body)
    size = ask.prompt.size
    stage.log.add(
        path=request.url.path,
        protocol=ask.protocol,
        size=size,
        side=True,
        action="count",
        messages=ask.messages,
    )
    return JSONResponse(wire.count(tokens(size)))


async def _body(request: Request) -> dict[str, Any] | None:
    raw = await request.body()
    try:
        match request.headers.get("content-encoding", ""):
            case "zstd":
                raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
            case "gzip":
                raw = gzip.decompress(raw)
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, zstandard.ZstdError, OSError, EOFError):
        return None


def _bad_body() -> Response:
    return JSONResponse({"error": {"type": "invalid_request_error", "message": "The body is not JSON."}}, 400)
