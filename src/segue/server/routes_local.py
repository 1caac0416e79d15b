"""The routes for the command line: only over the Unix socket, because an environment comes with the call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from segue.app.change_call import AnyAnswer, ChangeCall
from segue.app.foreground import ForegroundCall
from segue.app.frames import AnyFrame, Refused
from segue.server.endpoint import Call, Endpoint
from segue.server.log import log_failure

CALL_BYTES = 64 << 20
"""The largest call: a prompt on stdin, an environment, and some room."""
MEDIA = "application/x-ndjson"
ROUNDS = 20
"""More rounds of the event loop than it takes to learn that nobody received what was sent."""


async def _turn(call: Call) -> Any:
    frames: asyncio.Queue[AnyFrame | None] = asyncio.Queue()
    # Not awaited by the answer: the turn continues if the client vanishes.
    task = asyncio.create_task(_run(call, call.body, frames))
    tasks: set[asyncio.Task[None]] = call.state["tasks"]
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return StreamingResponse(_lines(frames), media_type=MEDIA)


async def _run(call: Call, order: ForegroundCall, frames: asyncio.Queue[AnyFrame | None]) -> None:
    try:
        await call.segue.service.foreground(order, frames.put_nowait)
    except Exception as error:
        log_failure(error)
        frames.put_nowait(Refused(f"internal error: {error!r}", "internal", 1))
    finally:
        frames.put_nowait(None)


async def _lines(frames: asyncio.Queue[AnyFrame | None]) -> AsyncIterator[bytes]:
    while (frame := await frames.get()) is not None:
        yield _line(frame)


async def _change(call: Call) -> Any:
    return StreamingResponse(_change_lines(call), media_type=MEDIA)


async def _change_lines(call: Call) -> AsyncIterator[bytes]:
    try:
        async for answer in call.segue.service.change(call.body):
            yield _line(answer)
            for _ in range(
                ROUNDS
            ):  # if the caller has gone, this is cancelled here: before the change begins
                await asyncio.sleep(0)
    except Exception as error:
        log_failure(error)
        yield _line(Refused(f"internal error: {error!r}", "internal", 1))


def _line(frame: AnyFrame | AnyAnswer) -> bytes:
    """A frame on its line. A name of a file may not be UTF-8: then it is escaped."""
    try:
        return msgspec.json.encode(frame) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(frame), separators=(",", ":")).encode() + b"\n"


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/v1/local/turns",
        ("Segue.run", "Segue.retry", "Segue.sessions.continue_"),
        _turn,
        "Run a turn for a command line on this machine, which waits for it.",
        returns=str,
        body=ForegroundCall,
        max_body=CALL_BYTES,
        media=MEDIA,
        local=True,
    ),
    Endpoint(
        "POST",
        "/api/v1/local/changes",
        (
            *("Segue.edit", "Segue.truncate", "Segue.undo", "Segue.fork", "Segue.import_", "Segue.rm"),
            *("Segue.runs.submit", "Segue.runs.edit", "Segue.runs.move", "Segue.runs.remove"),
            *("Segue.runs.cancel", "Segue.runs.answer"),
            *("Segue.sessions.repair", "Segue.sessions.restore", "Segue.sessions.prune"),
        ),
        _change,
        "Change something for a command line on this machine.",
        returns=str,
        body=ChangeCall,
        max_body=CALL_BYTES,
        media=MEDIA,
        local=True,
    ),
)
