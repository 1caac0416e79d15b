"""Server-sent events: a subscription as a stream of lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

import msgspec
from starlette.responses import StreamingResponse

from segue.app.subscriptions import FeedItem

HEARTBEAT_S = 15.0
"""How long nothing is sent before a comment says that the connection is alive. It has no id."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
MEDIA = "text/event-stream"


def stream_of(items: AsyncGenerator[FeedItem, None]) -> StreamingResponse:
    """The answer that sends the items as they come."""
    return StreamingResponse(_lines(items), headers=HEADERS, media_type=MEDIA)


async def _lines(items: AsyncGenerator[FeedItem, None]) -> AsyncIterator[bytes]:
    waiting: asyncio.Task[FeedItem] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(items))
            done, _ = await asyncio.wait([waiting], timeout=HEARTBEAT_S)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                item = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield encoded(item)
    finally:
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await waiting
        await items.aclose()


def encoded(item: FeedItem) -> bytes:
    """One event. JSON has no line ends, so the data is one line."""
    named = f"id: {item.id}\n".encode() if item.id is not None else b""
    return b"%bevent: %b\ndata: %b\n\n" % (named, item.kind.encode(), msgspec.json.encode(item.data))
