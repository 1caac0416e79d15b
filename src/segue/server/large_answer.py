"""Answers of any size: encoded in a thread and sent in pieces, so that others are answered meanwhile.

Encoding is one call that lets nothing else in the process run. So a list is encoded item by item.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from starlette.responses import Response, StreamingResponse

PIECE = 1 << 20
"""An answer up to this size is sent at once. Larger ones are sent in pieces of about this size."""


async def large_answer(result: Any, status: int, media: str) -> Response:
    """The answer with a result, as JSON."""
    pieces = encoded(result)
    first = await run_sync(next, pieces, b"")
    second = await run_sync(next, pieces, None)
    if second is None:
        return Response(first, status, media_type=media)
    return StreamingResponse(_sent(first, second, pieces), status, media_type=media)


async def _sent(first: bytes, second: bytes, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    piece: bytes | None = second
    while piece is not None:
        yield piece
        piece = await run_sync(next, pieces, None)


def encoded(result: Any) -> Iterator[bytes]:
    """A result as JSON, in pieces."""
    if not isinstance(result, list):
        whole = msgspec.json.encode(result)
        yield from (whole[at : at + PIECE] for at in range(0, len(whole), PIECE))
        return
    held = bytearray(b"[")
    for n, item in enumerate(result):
        held += b"," if n else b""
        held += msgspec.json.encode(item)
        if len(held) >= PIECE:
            yield bytes(held)
            held.clear()
    yield bytes(held + b"]")
