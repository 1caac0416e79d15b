"""The log of requests that the model received, in memory and as JSON lines. Never headers, never keys."""

import os
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import IO, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.system import clock

_TEXT_LIMIT = 2000


class Spent(Struct, frozen=True):
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


class LoggedRequest(Struct, frozen=True, kw_only=True):
    """One request. `bytes` counts the prompt (tools, system, messages), `new_bytes` what no cache had."""

    n: int
    time: float
    protocol: str
    model: str
    path: str
    bytes: int
    new_bytes: int
    side: bool
    status: int
    action: str
    usage: Spent
    last_user_text: str
    messages: int
    body: dict[str, Any] | None = None


class Log:
    """With `kept`, only that many requests stay in memory, without their bodies; the file gets everything,
    and so does `heard`. Only this user can read the file."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        bodies: bool = True,
        kept: int | None = None,
        heard: Callable[[LoggedRequest], None] | None = None,
    ) -> None:
        self._path = path
        self._bodies = bodies
        self._heard = heard
        self._lock = Lock()
        self._bounded = kept is not None
        self._requests: deque[LoggedRequest] = deque(maxlen=kept)
        self._count = 0

    @property
    def requests(self) -> list[LoggedRequest]:
        with self._lock:
            return list(self._requests)

    def clear(self) -> None:
        with self._lock:
            self._requests.clear()
            self._count = 0

    def add(
        self,
        *,
        path: str,
        protocol: str = "",
        model: str = "",
        size: int = 0,
        new_bytes: int = 0,
        side: bool = False,
        status: int = 200,
        action: str = "other",
        usage: Spent | None = None,
        text: str = "",
        messages: int = 0,
        body: dict[str, Any] | None = None,
    ) -> None:
        with self._lock:
            self._count += 1
            request = LoggedRequest(
                n=self._count,
                time=clock.now_s(),
                protocol=protocol,
                model=model,
                path=path,
                bytes=size,
                new_bytes=new_bytes,
                side=side,
                status=status,
                action=action,
                usage=usage or Spent(),
                last_user_text=text[:_TEXT_LIMIT],
                messages=messages,
                body=body if self._bodies else None,
            )
            self._requests.append(replace(request, body=None) if self._bounded else request)
            if self._heard is not None:
                self._heard(request)
            if self._path is not None:
                with appending(self._path) as file:
                    file.write(msgspec.json.encode(request) + b"\n")


def appending(path: Path) -> IO[bytes]:
    """Open the file for appending, and make it readable by this user only."""
    return open(_private(path, os.O_APPEND), "ab")


def write_private(path: Path, text: str) -> None:
    """Write the file, readable by this user only: it may contain a key."""
    with open(_private(path, os.O_TRUNC), "w", encoding="utf-8") as file:
        file.write(text)


def _private(path: Path, how: int) -> int:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    found = os.fstat(opened)
    if (
        stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    ):  # an existing file may be readable by all
        os.fchmod(opened, 0o600)
    return opened
