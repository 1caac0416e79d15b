"""Large answers: the same JSON in pieces, and others are answered while they are encoded."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest
from starlette.responses import Response

from segue.app.segue import Segue
from segue.server import api, large_answer
from segue.server.access import LOCAL, Access
from segue.server.api import Api
from segue.server.large_answer import PIECE, encoded

TEXT = "x" * 10_000
LOG = "/api/v1/conversations/k/log"


@pytest.mark.parametrize(
    "result", [[], [1], [{"text": TEXT}] * 300, {"texts": [TEXT] * 300}, "x" * 3 * PIECE]
)
def test_the_pieces_make_up_the_whole(result: Any) -> None:
    pieces = list(encoded(result))
    whole = msgspec.json.encode(result)
    assert b"".join(pieces) == whole
    assert max(map(len, pieces)) <= PIECE + len(TEXT) + 100
    assert (len(pieces) > 1) == (len(whole) > PIECE)


class Large:
    """Stands for the library: its log has many small messages."""

    def __init__(self) -> None:
        self.messages = [{"n": n, "parts": list(range(50))} for n in range(100_000)]

    async def log(self, key: str) -> list[Any]:
        return self.messages


class Asked:
    """A request at the application, and what was sent."""

    def __init__(self, served: Api, path: str) -> None:
        self._served, self._path = served, path
        self.body = b""
        self.pieces = 0

    async def __call__(self) -> None:
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": self._path,
            "raw_path": self._path.encode(),
        }
        scope |= {"headers": [], "query_string": b"", LOCAL: True}
        await self._served(scope, self._receive, self._send)

    async def _receive(self) -> Any:
        await asyncio.sleep(3600)

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body" and message["body"]:
            self.body += message["body"]
            self.pieces += 1


async def answered_meanwhile(large: Large) -> tuple[int, Asked]:
    """How often the daemon says that it is well until a large log was sent."""
    served = Api(cast("Segue", large), Access("", 1), {})
    log, count = Asked(served, LOG), 0
    sending = asyncio.create_task(log())
    await asyncio.sleep(0)
    while not sending.done():
        health = Asked(served, "/api/v1/health")
        await health()
        assert msgspec.json.decode(health.body)["ok"] is True
        count += 1
        await asyncio.sleep(0)
    await sending
    return count, log


def test_others_are_answered_while_a_large_log_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Large()
    count, log = asyncio.run(answered_meanwhile(large))
    assert log.body == msgspec.json.encode(large.messages)
    assert log.pieces > 10

    async def at_once(result: Any, status: int, media: str) -> Any:
        return Response(msgspec.json.encode(result), status, media_type=media)

    monkeypatch.setattr(api, "large_answer", at_once)
    before, _ = asyncio.run(answered_meanwhile(large))
    assert count > 10 * before, "as long as it is encoded at once, nobody else is answered"


def test_a_small_answer_is_sent_at_once() -> None:
    answer = asyncio.run(large_answer.large_answer([{"n": 1}], 200, "application/json"))
    assert (bytes(answer.body), answer.headers["content-length"]) == (b'[{"n":1}]', "9")
