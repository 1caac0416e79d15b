"""Whether a daemon serves a home, and what it says about itself.

``daemon.json`` tells where it listens, but its port may belong to another user by now. The check goes through
the Unix socket, which only this user can have made. This module loads nothing heavy.
"""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from segue import __version__
from segue.app.daemon_file import DaemonFile, file_of, lives, place_of, read_file, store_mark
from segue.core.json_values import decode
from segue.system import processes, sockets
from segue.system.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.config.home import Home

PROTOCOL = 1
"""Rises when a client and a daemon of different numbers can no longer talk."""
CAPABILITIES = ("conversations", "sessions", "runs", "events", "queue", "questions")
"""What this daemon can do. Clients look at these names, never at a version."""
ASK_S = 2.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What a daemon says to everybody who asks."""

    ok: bool
    version: str
    protocol: int
    capabilities: tuple[str, ...]
    pid: int


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a daemon says about itself to those who may know."""

    url: str
    pid: int
    version: str
    protocol: int
    started: int
    """Milliseconds since 1970."""
    memory: int | None
    """Bytes it has in memory; None: the system does not tell."""
    runs: dict[str, int]
    """How many runs there are in each state that is not an end."""
    questions: int
    """How many questions can be answered."""


class LoginLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that logs a browser in. It works once, for a few minutes."""

    url: str


class Presence(NamedTuple):
    """What was found in a home."""

    told: DaemonFile | None
    """The daemon that the home names, if its process lives."""
    health: Health | None
    """Its answer; None: it does not answer, because it is starting or ending."""


def socket_of(home: Home) -> Path:
    return home.root / "daemon.sock"


def token_of(home: Home) -> Path:
    return home.root / "token"


def logins_of(home: Home) -> Path:
    """The browsers that are logged in."""
    return home.root / "logins"


def port_of(home: Home) -> Path:
    """The port that the last daemon listened on."""
    return home.root / "port"


def log_of(home: Home) -> Path:
    return home.root / "daemon.log"


def tell(home: Home, told: DaemonFile) -> None:
    write_whole(file_of(home), msgspec.json.encode(told) + b"\n", durable=False)


def this_daemon(home: Home, url: str, store_url: str | None, started_ms: int, pid: int) -> DaemonFile:
    return DaemonFile(
        url=url,
        pid=pid,
        version=__version__,
        protocol=PROTOCOL,
        started=started_ms,
        start_time=processes.start_time(pid),
        boot_id=processes.boot_id(),
        machine_id=processes.machine_id(),
        pid_ns=processes.pid_ns(),
        mnt_ns=processes.mnt_ns(),
        uid=os.getuid(),
        home=place_of(home),
        store=store_mark(store_url),
    )


def look(home: Home) -> Presence:
    """The daemon of a home. What is stale is not told."""
    told = read_file(home)
    if told is None or not lives(home, told):
        return Presence(None, None)
    try:
        health = decode(ask(home, "GET", "/api/v1/health"), Health)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return Presence(told, None)
    return Presence(told, health if health.pid == told.pid else None)


def ask(home: Home, method: str, path: str, *, timeout_s: float = ASK_S) -> bytes:
    """One request over the Unix socket. Raises ``OSError`` if nobody answers, or if it is refused."""
    connection = _Connection(socket_of(home), timeout_s)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status >= 300:
            raise OSError(f"the daemon answered {answer.status} to {method} {path}")
        return body
    finally:
        connection.close()


def status(home: Home) -> DaemonStatus:
    return decode(ask(home, "GET", "/api/v1/status"), DaemonStatus)


def login_link(home: Home) -> LoginLink:
    return decode(ask(home, "POST", "/api/v1/login-links"), LoginLink)


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path, self._timeout_s = path, timeout_s

    def connect(self) -> None:
        self.sock = sockets.connect(self._path, self._timeout_s)


def resident_bytes(pid: int) -> int | None:
    """How much of a process is in memory."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    found: Mapping[str, Any] = dict(line.split(":", 1) for line in lines if ":" in line)
    size = str(found.get("VmRSS", "")).split()
    return int(size[0]) * 1024 if size else None
