"""Who may ask: the token, the one-time link for a browser, and the checks against foreign pages.

A page on another origin can make a browser send requests to this machine. So the Host must be ours (against
DNS rebinding), an Origin must be the same (against forged requests), and a browser proves itself with a
cookie that other sites cannot make it send. At the Unix socket the system says who is there.
"""

from __future__ import annotations

import hmac
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from segue.core.errors import Broken
from segue.server.logins import AGE_S, Logins
from segue.server.problems import Refused
from segue.system import clock
from segue.system.files import write_new

LOCAL = "segue.local"
"""Set in the scope of a request that came over the Unix socket."""
TOKEN_BYTES, CODE_BYTES = 32, 16
CODE_S = 300.0
FAILURES, FAILURES_S = 10, 60.0
MOST_CODES = 20
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def read_token(path: Path) -> str:
    """The token of a home, made when it is first needed. Others must not be able to read it."""
    with suppress(FileExistsError):
        if not path.exists():
            write_new(path, f"{clock.random_hex(TOKEN_BYTES)}\n".encode())
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    token = path.read_text("ascii", "replace").strip()
    if len(token) < 2 * CODE_BYTES:
        raise Broken(f"{path} has no usable token; delete it, and start the daemon again")
    return token


class Access:
    """Decides about each request, before its body is read."""

    def __init__(
        self,
        token: str,
        port: int,
        logins: Path | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``logins``: the file of the browsers that are logged in; None: they are forgotten."""
        self._token, self._now_s = token.encode(), now_s
        self.url = f"http://127.0.0.1:{port}"
        self.cookie = f"segue_{port}"
        """Browsers send cookies to every port of a host; daemons of several homes must not share a name."""
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._codes: dict[str, float] = {}
        self._logins = Logins(logins, port)
        self._failures: deque[float] = deque(maxlen=FAILURES)

    def check(self, scope: Mapping[str, Any], headers: Mapping[str, str], *, is_open: bool = False) -> None:
        """Raise ``Refused`` unless the request may be answered. ``is_open``: without a token."""
        if scope.get(LOCAL):
            return
        self._check_origin(headers)
        if not is_open and not self._is_known(headers):
            raise self._failed("send the token of SEGUE_HOME/token: Authorization: Bearer TOKEN")

    def make_link(self) -> str:
        """A link that logs one browser in, once."""
        now = self._now_s()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        while len(self._codes) >= MOST_CODES:
            self._codes.pop(next(iter(self._codes)))
        code = clock.random_hex(CODE_BYTES)
        self._codes[code] = now + CODE_S
        return f"{self.url}/login?code={code}"

    def redeem(self, code: str) -> str:
        """The value of a ``Set-Cookie`` header for a code, which is used up. Raises ``Refused``."""
        given = code.encode("utf-8", "replace")
        found = [each for each in self._codes if hmac.compare_digest(each.encode(), given)]
        if not found or self._codes.pop(found[0]) < self._now_s():
            raise self._failed(
                "this link was used before, or is too old; segue status --link makes a new one"
            )
        return f"{self.cookie}={self._logins.add()}; Path=/; Max-Age={AGE_S}; HttpOnly; SameSite=Strict"

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if host not in self._hosts:
            raise Refused("forbidden", f"this daemon is reached as {self.url}, not by another name")
        if origin is not None and origin.lower() != f"http://{host}":
            raise Refused("forbidden", "pages of another origin may not use this daemon")
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if foreign and headers.get("sec-fetch-mode") != "navigate":
            raise Refused("forbidden", "pages of another origin may not use this daemon")

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self._token):
            return True
        cookie = self._cookie(headers.get("cookie", ""))
        return cookie != "" and self._logins.knows(cookie)

    def _cookie(self, header: str) -> str:
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

    def _failed(self, detail: str) -> Refused:
        """Count a failure. After too many, the answer says when to try again.

        Who has the token is still let in: otherwise any page could lock the user out.
        """
        now = self._now_s()
        if len(self._failures) == FAILURES and now - self._failures[0] < FAILURES_S:
            wait = str(max(1, round(FAILURES_S - (now - self._failures[0]))))
            return Refused("rate_limited", f"try again in {wait} s", headers={"retry-after": wait})
        self._failures.append(now)
        return Refused("unauthorized", detail, headers={"www-authenticate": "Bearer"})


def _same(given: str, known: bytes) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), known)
