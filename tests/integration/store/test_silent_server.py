"""A server that takes what it is sent and never answers: whoever waits for it is told in the end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from segue.core.errors import StoreAway
from segue.store import postgres
from segue.store.store import open_store

PATIENCE_S = 1.0


class Wire:
    """Carries bytes between a client and the server's socket, until it is cut."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut = threading.Event()
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._open += [client, server]
                server.connect(self._server)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not self.cut.is_set():
                    target.sendall(data)

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def wire(url: str) -> Iterator[tuple[Wire, str]]:
    parts = urlsplit(url)
    between = Wire(f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432")
    try:
        yield between, f"postgresql://segue@127.0.0.1:{between.port}{parts.path}"
    finally:
        between.close()


def test_a_server_that_falls_silent_counts_as_away(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with open_store(postgres_url, tmp_path) as store:
        assert store.conversations() == []
    with wire(postgres_url) as (between, url), open_store(url, tmp_path) as store:
        assert store.conversations() == []
        monkeypatch.setattr(postgres, "ANSWER_S", PATIENCE_S)
        monkeypatch.setitem(postgres._REACHABLE, "connect_timeout", 2)
        between.cut.set()
        with pytest.raises(StoreAway):
            store.conversations()
