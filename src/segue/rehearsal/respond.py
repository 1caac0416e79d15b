"""Sends an action over HTTP: whole or streamed, slow, broken, refused, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from segue.rehearsal.types import Action, Ask, Fault, Frame, Hang, Limit, Refusal, Reply, Usage
from segue.rehearsal.wire.common import compact
from segue.system.clock import now_ms

_BROKEN_EVENT = b'data: {"type": "broken", "delta": {"te\n\n'
_GARBAGE = b"data: this is not JSON\n\n"


class Wire(Protocol):
    """The functions of a wire module."""

    def decode(self, body: dict[str, Any]) -> Ask: ...
    def payload(self, ask: Ask, reply: Reply, usage: Usage, mark: str) -> dict[str, Any]: ...
    def frames(self, ask: Ask, reply: Reply, usage: Usage, mark: str) -> Iterator[Frame]: ...
    def refuse(self, ask: Ask, fault: Fault) -> Refusal: ...
    def failure(self, ask: Ask, fault: Fault, mark: str) -> Iterator[Frame]: ...
    def limit_headers(self, limits: tuple[Limit, ...], now_s: float) -> dict[str, str]: ...


class DroppedError(Exception):
    """Raised inside a response to make the server close the connection without ending it."""


async def perform(
    request: Request, wire: Wire, ask: Ask, action: Action, usage: Usage, mark: str
) -> Response:
    """The HTTP response for an action. `mark` makes the ids in it unique."""
    response = await _perform(request, wire, ask, action, usage, mark)
    if isinstance(action, Reply | Fault) and action.limits:
        response.headers.update(wire.limit_headers(action.limits, now_ms() / 1000))
    return response


async def _perform(
    request: Request, wire: Wire, ask: Ask, action: Action, usage: Usage, mark: str
) -> Response:
    match action:
        case Fault(streamed=streamed) if not (streamed and ask.stream):
            refusal = wire.refuse(ask, action)
            return JSONResponse(refusal.body, refusal.status, refusal.headers)
        case Fault():
            return _stream(_paced(list(wire.failure(ask, action, mark)), Reply(())))
        case Reply(ending="garbage"):
            return Response(_GARBAGE, media_type="text/event-stream")
        case Reply() if ask.stream:
            return _stream(_paced(list(wire.frames(ask, action, usage, mark)), action))
        case Reply():
            return await _whole(compact(wire.payload(ask, action, usage, mark)).encode(), action)
        case Hang():
            await _gone(request)
            return Response(status_code=499)


def _stream(frames: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(frames, media_type="text/event-stream", headers={"cache-control": "no-cache"})


async def _paced(frames: list[Frame], reply: Reply) -> AsyncIterator[bytes]:
    beats = sum(frame.beat for frame in frames)
    pause = reply.seconds / max(1, beats)
    allowed = max(1, beats // 2)
    if reply.seconds and not beats:
        await asyncio.sleep(reply.seconds)
    for frame in frames:
        if frame.beat and pause:
            await asyncio.sleep(pause)
        yield frame.data
        allowed -= frame.beat
        if reply.ending != "whole" and allowed == 0:
            break
    if reply.ending == "dropped":
        # let the data in the socket be sent before the connection closes
        await asyncio.sleep(0.05)
        raise DroppedError
    if reply.ending == "malformed":
        yield _BROKEN_EVENT


async def _whole(body: bytes, reply: Reply) -> Response:
    await asyncio.sleep(reply.seconds)
    if reply.ending == "whole":
        return Response(body, media_type="application/json")
    half = body[: len(body) // 2]
    if reply.ending == "malformed":
        return Response(half, media_type="application/json")
    return StreamingResponse(
        _half(half), headers={"content-length": str(len(body))}, media_type="application/json"
    )


async def _half(body: bytes) -> AsyncIterator[bytes]:
    yield body
    await asyncio.sleep(0.05)
    raise DroppedError


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
