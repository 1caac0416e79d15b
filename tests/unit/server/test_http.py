"""The server below the application: its order of ending, and who may come in at the Unix socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from segue.config.home import Home
from segue.server import daemon, http
from segue.server.access import LOCAL
from segue.system import sockets


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(f"local: {scope.get(LOCAL, False)}")(scope, receive, send)


async def nothing() -> None:
    """Nothing is running."""


def bound() -> socket.socket:
    made = socket.create_server(("127.0.0.1", 0))
    made.setblocking(False)
    return made


async def asked(listening: socket.socket) -> bytes:
    """What is answered to a request; nothing, if the connection is closed."""
    client = socket.socket(listening.family)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, listening.getsockname())
    reader, writer = await asyncio.open_connection(sock=client)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def serve(
    listening: list[socket.socket],
    work: Callable[[http.Server], Awaitable[None]],
    drain: Callable[[], Awaitable[None]] = nothing,
) -> None:
    ready = asyncio.Event()
    server = http.Server(app, ready.set, drain, 1)
    serving = asyncio.ensure_future(server.serve(listening))
    await ready.wait()
    try:
        await work(server)
    finally:
        server.stop()
        await serving


def test_only_the_unix_socket_is_local(tmp_path: Path) -> None:
    tcp, unix = bound(), sockets.listen(tmp_path / "s")

    async def work(server: http.Server) -> None:
        assert (await asked(tcp)).endswith(b"local: False")
        assert (await asked(unix)).endswith(b"local: True")

    asyncio.run(serve([tcp, unix], work))


def test_another_user_at_the_socket_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "peer_uid", lambda connected: os.getuid() + 1)
    unix = sockets.listen(tmp_path / "s")

    async def work(server: http.Server) -> None:
        assert await asked(unix) == b""

    asyncio.run(serve([unix], work))


def test_nobody_comes_in_while_it_drains() -> None:
    tcp = bound()
    address = tcp.getsockname()
    refused: list[bool] = []

    async def drain() -> None:
        try:
            socket.create_connection(address, 5).close()
        except ConnectionRefusedError:
            refused.append(True)

    async def work(server: http.Server) -> None:
        assert (await asked(tcp)).endswith(b"local: False")
        assert server.requests == 1

    asyncio.run(serve([tcp], work, drain))
    assert refused == [True]


class Part:
    """A part of a daemon that fails, or notes that it ended."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.drained = fails, 0.0

    async def start(self) -> None:
        """Nothing to start."""

    async def drain(self, limit_s: float) -> None:
        if self.fails:
            raise RuntimeError
        self.drained = limit_s

    def runs(self) -> dict[str, int]:
        return {}


def test_a_part_that_fails_does_not_keep_others_from_ending() -> None:
    good = Part()
    asyncio.run(daemon.drain({"bad": Part(fails=True), "good": good}, 7))
    assert good.drained == 7


@pytest.mark.parametrize(("same_s", "code"), [(0.0, 128 + signal.SIGINT), (60.0, None)])
def test_a_later_signal_ends_at_once(
    same_s: float, code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes at the same moment does not: two commands may have stopped the daemon."""
    codes: list[int] = []
    monkeypatch.setattr(daemon, "SAME_S", same_s)
    monkeypatch.setattr("os._exit", codes.append)
    (tmp_path / "daemon.json").touch()

    async def go() -> None:
        stopped, after = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, after.set)
        with daemon.signals(stopped.set, Home(tmp_path)):
            os.kill(os.getpid(), signal.SIGTERM)
            await stopped.wait()
            assert codes == []
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGUSR1)  # heard after the other one
            await after.wait()

    asyncio.run(go())
    assert codes == ([] if code is None else [code])
    assert (tmp_path / "daemon.json").exists() == (code is None)
