"""A real daemon in a process of its own, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.system import sockets
from tests.integration.conftest import Program

WAIT_S = 30


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def kind(self) -> str:
        """The kind of the problem."""
        assert self.headers["content-type"] == "application/problem+json"
        told: dict[str, Any] = self.json
        assert told["status"] == self.status
        return str(told["kind"])


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=WAIT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = sockets.connect(self._path, WAIT_S)


@dataclass
class Daemon:
    """A running daemon. ``segue`` is the program in the same home."""

    segue: Program
    process: subprocess.Popen[bytes]
    url: str
    link: str

    @property
    def home(self) -> Path:
        return self.segue.home

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: bool = True,
        raw: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """One request over TCP. ``raw``: a body that is sent as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named.setdefault("authorization", f"Bearer {self.token}")
        return self._ask(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S), method, path, body, raw, named
        )

    def ask_local(self, method: str, path: str, body: Any = None) -> Answer:
        """One request over the Unix socket."""
        return self._ask(UnixConnection(self.home / "daemon.sock"), method, path, body, None, {})

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        raw: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        data = msgspec.json.encode(body) if body is not None else raw
        if data is not None:
            headers.setdefault("content-type", "application/json")
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, told, answer.read())
        finally:
            connection.close()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        os.kill(self.process.pid, number)
        return self.process.wait(WAIT_S)

    def log(self) -> str:
        """What it logged; it must have ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


def start(segue: Program, *args: str) -> Daemon:
    """Start a daemon in the foreground, and wait until it says where it listens."""
    process = segue.start("serve", *args)
    assert process.stdout is not None
    first, second = process.stdout.readline().decode(), process.stdout.readline().decode()
    listening = re.match(r"Listening on (http://127\.0\.0\.1:\d+) \(pid (\d+)\)", first)
    if listening is None:
        _, errors = process.communicate(timeout=WAIT_S)
        raise AssertionError(errors.decode())
    assert int(listening[2]) == process.pid
    return Daemon(segue, process, listening[1], second.split()[-1])


def finish(process: subprocess.Popen[bytes]) -> None:
    """End a process that a test started, and read what is left in its pipes."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.kill()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait(WAIT_S)


@pytest.fixture
def daemon(segue: Program) -> Iterator[Daemon]:
    started = start(segue)
    yield started
    finish(started.process)
