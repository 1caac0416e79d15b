"""The loopback model: an HTTP server on 127.0.0.1 that speaks four wire protocols and remembers nothing.

    with LoopbackModel() as model:
        ...  # point a CLI at model.url, with model.key (see `segue.rehearsal.stage`)
        model.requests

or `python -m segue.rehearsal.server --port 0 --log FILE`; once it is ready it prints `{"url": …, "key": …}`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import uvicorn
import zstandard
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.rehearsal import scenario as scenarios
from segue.rehearsal.access import AccessCheck
from segue.rehearsal.cache import Cache, Served, tokens
from segue.rehearsal.log import Log, LoggedRequest, Spent
from segue.rehearsal.respond import Wire, perform
from segue.rehearsal.scenario import Scenario
from segue.rehearsal.script import Script
from segue.rehearsal.types import Fault, Limit, Reply, Usage
from segue.rehearsal.wire import anthropic, chat, gemini, responses
from segue.rehearsal.wire.common import said
from segue.system.clock import now_ms, random_hex

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_MODELS = {"object": "list", "data": [{"id": "rehearsal", "object": "model"}], "models": []}


class ServerState:
    """Everything the server keeps: the log, the prompt cache and the script's counters."""

    def __init__(self, log: Log, scenario: Scenario | None = None, cache: Cache | None = None) -> None:
        self.log = log
        self.cache = cache or Cache()
        self.script = Script(scenario)
        self.limits: tuple[Limit, ...] = ()
        """Those that an answer told last."""

    def reset(self) -> None:
        self.log.clear()
        self.cache.clear()
        self.script.clear()
        self.limits = ()


def build_app(stage: ServerState) -> Starlette:
    post = ["POST"]
    return Starlette(
        routes=[
            Route("/v1/messages", partial(_call, stage, anthropic), methods=post),
            Route("/v1/messages/count_tokens", partial(_count, stage), methods=post),
            Route("/v1/responses", partial(_call, stage, responses), methods=post),
            Route("/v1/chat/completions", partial(_call, stage, chat), methods=post),
            Route("/v1beta/models/{call}", partial(_gemini, stage), methods=post),
            Route("/v1/models", _models, methods=["GET"]),
            Route("/backend-api/wham/usage", partial(_usage, stage), methods=["GET"]),
            Route("/rehearsal/log", partial(_log, stage), methods=["GET"]),
            Route("/rehearsal/reset", partial(_reset, stage), methods=post),
            Route("/{rest:path}", partial(_anything, stage), methods=_METHODS),
        ]
    )


async def _call(stage: ServerState, wire: Wire, request: Request) -> Response:
    body = await _body(request)
    return _bad_body() if body is None else await _answer(stage, wire, request, body)


async def _gemini(stage: ServerState, request: Request) -> Response:
    """Gemini has the model and the kind of answer in the path."""
    body = await _body(request)
    if body is None:
        return _bad_body()
    model, _, verb = request.path_params["call"].partition(":")
    if verb == "countTokens":
        return _counted(stage, gemini, request, body.get("generateContentRequest") or body)
    return await _answer(
        stage, gemini, request, body | {"model": model, "stream": verb == "streamGenerateContent"}
    )


async def _count(stage: ServerState, request: Request) -> Response:
    body = await _body(request)
    return _bad_body() if body is None else _counted(stage, anthropic, request, body)


async def _models(request: Request) -> Response:
    return JSONResponse(_MODELS)


async def _usage(stage: ServerState, request: Request) -> Response:
    """What a subscriber's Codex asks for by itself: the limits that were told last."""
    stage.log.add(path=request.url.path, side=True)
    return JSONResponse(responses.usage_told(stage.limits, now_ms() / 1000))


async def _log(stage: ServerState, request: Request) -> Response:
    return Response(msgspec.json.encode(stage.log.requests), media_type="application/json")


async def _reset(stage: ServerState, request: Request) -> Response:
    stage.reset()
    return JSONResponse({})


async def _anything(stage: ServerState, request: Request) -> Response:
    stage.log.add(path=request.url.path, side=True)
    return JSONResponse({})


async def _answer(stage: ServerState, wire: Wire, request: Request, body: dict[str, Any]) -> Response:
    ask = wire.decode(body)
    scene = stage.script.act(ask)
    if isinstance(scene.action, Reply | Fault) and scene.action.limits:
        stage.limits = scene.action.limits
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
    return await perform(request, wire, ask, scene.action, usage, random_hex(10))


def _counted(stage: ServerState, wire: Any, request: Request, body: dict[str, Any]) -> Response:
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


class LoopbackModel:
    """The model in a background thread. `scenario` and `log` are files; `port` 0 chooses a free one.

    Only requests with `key` are answered; it is random for each run. `kept`: how many requests are kept in
    memory, without bodies. `heard` is called with each request. `clock` is the clock of the prompt cache.
    Raises `ValueError` for an invalid scenario and `OSError` for a port that is not available.
    """

    def __init__(
        self,
        port: int = 0,
        scenario: Path | str | None = None,
        log: Path | str | None = None,
        *,
        log_bodies: bool = True,
        kept: int | None = None,
        heard: Callable[[LoggedRequest], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rules = scenarios.load(Path(scenario)) if scenario is not None else None
        self._log = Log(Path(log) if log is not None else None, bodies=log_bodies, kept=kept, heard=heard)
        self.key = f"rehearsal-{random_hex(16)}"
        self._stage = ServerState(self._log, rules, Cache(clock))
        self._socket = _listen(port)
        self._server = _Server(_config(AccessCheck(build_app(self._stage), self.key)))
        self._thread = threading.Thread(target=self._run, name="loopback-model", daemon=True)
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[LoggedRequest]:
        """Every request so far, in order."""
        return self._log.requests

    def reset(self) -> None:
        """Forget the log, the cache and the script's counters."""
        self._stage.reset()

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop at once, even if clients are still connected."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(5)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    """Since Python 3.12, a server is closed only when its connections are. Those that hang are cut."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super().shutdown(sockets)


def _listen(port: int) -> socket.socket:
    """Bind and listen at once, so that an early client waits instead of being refused."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _config(app: AccessCheck) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_keep_alive=300,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m segue.rehearsal.server", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--scenario", type=Path)
    parser.add_argument("--no-bodies", action="store_true", help="leave the requests' bodies out of the log")
    given = parser.parse_args()
    ended = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ended.set())
    with LoopbackModel(given.port, given.scenario, given.log, log_bodies=not given.no_bodies) as model:
        print(json.dumps({"url": model.url, "key": model.key}), flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
