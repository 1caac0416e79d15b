"""The logins of browsers, which outlive the daemon: digests of their cookies, in a file of this user.

A login ends after 30 days, or when the file is deleted. It is valid only at the port at which it was made:
whoever has taken that port meanwhile has been sent the cookie.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

import msgspec

from segue.core.json_values import decode
from segue.system import clock
from segue.system.files import write_whole

AGE_S = 30 * 24 * 3600
MOST = 100
VALUE_BYTES = 32


class Login(msgspec.Struct, frozen=True):
    """One browser that was logged in."""

    digest: str
    made: int
    """Milliseconds since 1970."""


class LoginFile(msgspec.Struct, frozen=True):
    """What is in the file."""

    logins: tuple[Login, ...] = ()


class Logins:
    """The logins at one port. ``path`` None: they are forgotten with the process."""

    def __init__(self, path: Path | None, port: int) -> None:
        self._path, self._port = path, port
        self._known: tuple[Login, ...] = ()
        self._read_at: tuple[int, int, int] | None = None

    def add(self) -> str:
        """Log a browser in. Returns the value of its cookie."""
        value, now_ms = clock.random_hex(VALUE_BYTES), clock.now_ms()
        self._known = (*_valid(self._now(), now_ms), Login(self._digest(value), now_ms))[-MOST:]
        if self._path is not None:
            write_whole(self._path, msgspec.json.encode(LoginFile(self._known)) + b"\n")
        return value

    def knows(self, value: str) -> bool:
        """Whether a browser with that cookie is logged in."""
        digest = self._digest(value)
        return any(hmac.compare_digest(digest, each.digest) for each in _valid(self._now(), clock.now_ms()))

    def _now(self) -> tuple[Login, ...]:
        """The logins as they are in the file now."""
        if self._path is None:
            return self._known
        try:
            found = self._path.stat()
            if found.st_mode & 0o077:
                self._path.chmod(0o600)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._read_at:
                self._known, self._read_at = decode(self._path.read_bytes(), LoginFile).logins, seen
        except (OSError, msgspec.MsgspecError):  # deleted: nobody is logged in any more
            self._known, self._read_at = (), None
        return self._known

    def _digest(self, value: str) -> str:
        return sha256(f"{self._port} {value}".encode("utf-8", "replace")).hexdigest()


def _valid(logins: tuple[Login, ...], now_ms: int) -> tuple[Login, ...]:
    return tuple(each for each in logins if abs(now_ms - each.made) < AGE_S * 1000)
