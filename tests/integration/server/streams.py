"""A subscriber: reads server-sent events in a thread, and waits for what a test expects."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.integration.server.conftest import WAIT_S, Daemon


@dataclass(frozen=True)
class Sent:
    kind: str
    id: str | None
    data: Any


OPEN: list[Stream] = []
"""The streams that a test has opened; the fixture ``streams`` closes them."""


@dataclass
class Stream:
    """What was received so far. ``over``: the server closed the stream."""

    daemon: Daemon
    path: str
    after: str | None = None
    got: list[Sent] = field(default_factory=list)
    over: bool = False

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._connection = http.client.HTTPConnection("127.0.0.1", self.daemon.port, timeout=WAIT_S * 2)
        headers = {"authorization": f"Bearer {self.daemon.token}"}
        if self.after is not None:
            headers["last-event-id"] = self.after
        self._connection.request("GET", self.path, headers=headers)
        self._socket = self._connection.sock
        OPEN.append(self)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Break the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_S)
        self._answer.close()
        self._connection.close()

    def wait(self, ready: Callable[[list[Sent]], bool]) -> list[Sent]:
        """What was received, once it is enough."""
        with self._changed:
            assert self._changed.wait_for(lambda: ready(self.got), WAIT_S), self.got
            return list(self.got)

    def wait_over(self) -> list[Sent]:
        until = time.monotonic() + WAIT_S
        with self._changed:
            assert self._changed.wait_for(lambda: self.over, until - time.monotonic()), self.got
            return list(self.got)

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for raw in self._answer:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields:
                    self._take(fields)
                    fields = {}
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def _take(self, fields: dict[str, str]) -> None:
        if fields["event"] == "heartbeat":
            return
        sent = Sent(fields["event"], fields.get("id"), msgspec.json.decode(fields["data"]))
        with self._changed:
            self.got.append(sent)
            self._changed.notify_all()


def settled(got: list[Sent], run: str) -> bool:
    """Whether the run is reported as over."""
    return any(
        each.kind == "run" and each.data["run"]["run"] == run and each.data["run"]["turn"] is not None
        for each in got
    )


def said(got: list[Sent], run: str) -> str:
    """The text of a run, put together from its fragments."""
    pieces: dict[int, str] = {}
    for each in got:
        deltas = each.data["running"] if each.kind == "hello" else [each.data] if each.kind == "delta" else []
        for delta in deltas:
            if delta["run"] == run:
                known = pieces.get(delta["block"], "")
                assert len(known) >= delta["offset"], "a fragment is missing"
                pieces[delta["block"]] = known[: delta["offset"]] + delta["text"]
    return "".join(pieces[n] for n in sorted(pieces))


def shown(got: list[Sent], run: str) -> str:
    """What a page shows of a run at the end: a piece that was told whole replaces its fragments."""
    pieces: dict[int, str] = {}
    whole = 0
    for each in got:
        if each.kind == "event" and each.data["run"] == run and each.data["event"]["type"] == "text":
            pieces[whole] = each.data["event"]["text"]
            whole += 1
        deltas = each.data["running"] if each.kind == "hello" else [each.data] if each.kind == "delta" else []
        for delta in deltas:
            if delta["run"] == run and delta["block"] >= whole:
                known = pieces.get(delta["block"], "")
                assert len(known) >= delta["offset"], "a fragment is missing"
                pieces[delta["block"]] = known[: delta["offset"]] + delta["text"]
    return "".join(pieces[n] for n in sorted(pieces))


def recorded(got: list[Sent], run: str) -> list[Any]:
    """The settled events of a run."""
    return [each.data["event"] for each in got if each.kind == "event" and each.data["run"] == run]


@pytest.fixture(autouse=True)
def streams() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()
