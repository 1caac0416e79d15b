"""The HTTP server below the application: uvicorn, told who is at the Unix socket and when to end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from segue.server.access import LOCAL
from segue.server.log import LOG
from segue.system.sockets import peer_uid

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TICK_S = 1.0
"""How old the date of an answer may be."""


class Door(H11Protocol):
    """One connection. At the Unix socket, another user's is closed before a byte is read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected.family != socket.AF_UNIX:
            return
        if peer_uid(connected) != os.getuid():
            transport.abort()
            return
        self.app = _local(self.app)


def _local(app: ASGIApp) -> ASGIApp:
    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        scope[LOCAL] = True
        await app(scope, receive, send)

    return marked


class Server:
    """Serves an application on sockets that are already bound.

    ``listens`` is called when it accepts connections, ``drain`` is awaited when it no longer does.
    """

    def __init__(
        self, app: ASGIApp, listens: Callable[[], None], drain: Callable[[], Awaitable[None]], close_s: int
    ) -> None:
        config = uvicorn.Config(
            app,
            http=Door,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=close_s,
        )
        self._server = _Uvicorn(config, listens, drain)

    async def serve(self, listening: list[socket.socket]) -> None:
        await self._server.serve(listening)

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.woken.set()

    @property
    def requests(self) -> int:
        """How many requests there were."""
        return self._server.server_state.total_requests

    @property
    def open_connections(self) -> int:
        """How many requests are being answered."""
        return len(self._server.server_state.tasks)


class _Uvicorn(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, listens: Callable[[], None], drain: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._listens, self._drain = listens, drain
        self.woken = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The daemon has its own handlers."""
        yield

    async def main_loop(self) -> None:
        """Uvicorn looks ten times a second whether to end. Here it is told, and only keeps the date."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self.woken.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listens()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._drain()
        await self._hang_up()
        await super().shutdown(sockets)

    async def _hang_up(self) -> None:
        """Let answers be completed for a moment, then close what is still open. A task whose connection is
        closed ends by itself."""
        state, limit_s = self.server_state, self.config.timeout_graceful_shutdown or 0
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            _, unfinished = await asyncio.wait(list(state.tasks), timeout=limit_s)
            if unfinished:
                LOG.info("closing %d unfinished answer%s", len(unfinished), "s"[: len(unfinished) - 1])
                for connection in list(state.connections):
                    connection.transport.close()
                await asyncio.wait(unfinished, timeout=limit_s)
