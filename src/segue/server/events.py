"""Server-sent events: a subscription as a stream of lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import msgspec
from starlette.responses import StreamingResponse

from segue.app.run_shapes import Changed, Delta, FeedEvent, Hello
from segue.app.subscriptions import FeedItem

HEARTBEAT_S = 15.0
"""How long nothing is sent before a ``heartbeat`` says that the connection is alive. It has no id."""
HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
"""An event, because browsers do not show comments to the page."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
MEDIA = "text/event-stream"


class Heartbeat(msgspec.Struct, frozen=True):
    """Nothing has happened for a while, and the connection is alive."""


STREAM = (
    ("hello", Hello),
    ("delta", Delta),
    ("event", FeedEvent),
    ("run", Changed),
    ("message", Changed),
    ("conversation", Changed),
    ("removed", Changed),
    ("flow", Changed),
    ("heartbeat", Heartbeat),
)
"""The events of a stream, and what each has as its data."""


def stream_of(items: AsyncGenerator[FeedItem]) -> StreamingResponse:
    """The answer that sends the items as they come."""
    return StreamingResponse(_lines(items), headers=HEADERS, media_type=MEDIA)


async def _lines(items: AsyncGenerator[FeedItem]) -> AsyncIterator[bytes]:
    async with aclosing(items):
        async for item in items:
            yield encoded(item)


def encoded(item: FeedItem) -> bytes:
    """One event. JSON has no line ends, so the data is one line."""
    if item.data is None:
        return HEARTBEAT
    named = f"id: {item.id}\n".encode() if item.id is not None else b""
    return b"%bevent: %b\ndata: %b\n\n" % (named, item.kind.encode(), msgspec.json.encode(item.data))
