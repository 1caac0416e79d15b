"""Unix sockets: private, at any path, and with a known peer. Sockets on loopback: without a delay."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from segue.system import sockets


def test_a_socket_is_private_and_replaces_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("left behind")
    with sockets.listen(path) as listening, sockets.connect(path, 5) as client:
        assert path.stat().st_mode & 0o777 == 0o600
        accepted, _ = listening.accept()
        with accepted:
            assert sockets.peer_uid(accepted) == sockets.peer_uid(client) == os.getuid()


def test_a_path_may_be_longer_than_an_address(tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 40)
    folder.mkdir()
    path = folder / "s"
    with sockets.listen(path), sockets.connect(path, 5):
        assert path.is_socket()


def test_a_server_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "peer_uid", lambda connected: os.getuid() + 1)
    path = tmp_path / "s"
    with sockets.listen(path), pytest.raises(PermissionError):
        sockets.connect(path, 5)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sockets.connect(tmp_path / "s", 5)


def test_what_is_sent_over_loopback_does_not_wait_for_more() -> None:
    """Headers and body are two writes: by default the second waits for the first to be acknowledged."""

    async def delays() -> int:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.set_result(
                writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            )
            writer.close()

        listening = sockets.listen_on_loopback(0)
        async with await asyncio.start_server(accepted, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            try:
                return await told
            finally:
                writer.close()

    assert asyncio.run(delays()) != 0
