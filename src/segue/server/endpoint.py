"""One route of the API: its path, its types, and the methods of ``app`` it exposes.

Everything about a route stands in its ``Endpoint``. The application, the OpenAPI document and the test that
compares routes and methods are all made from the same list, so they cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

if TYPE_CHECKING:
    from segue.app.segue import Segue

PARAMETER = re.compile(r"\{([a-z_]+)\}")
MESSAGE_BYTES = 16 << 20
"""The largest body with a message: more than any agent accepts."""


class Call(NamedTuple):
    """One request, decoded."""

    segue: Segue
    path: Mapping[str, str]
    """The path's parameters, percent-decoded: a key may contain ``/``."""
    query: Any
    """An instance of the endpoint's ``query``, or None."""
    body: Any
    """An instance of the endpoint's ``body``, or None."""
    headers: Mapping[str, str]
    """Names in lower case."""
    state: Mapping[str, Any]
    """What lives as long as the daemon, such as its engine: see ``parts_of`` in ``lifecycle.py``."""
    local: bool = False
    """It came over the Unix socket: from a process of this user on this machine."""


Handler = Callable[[Call], Awaitable[Any]]


class Header(msgspec.Struct, frozen=True):
    """A header that a route reads."""

    name: str
    description: str
    max_length: int | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """One method of one path."""

    method: str
    path: str
    """``/api/v1/conversations/{key}``: a parameter is one segment, which is decoded after it was matched."""
    calls: tuple[str, ...]
    """The public methods it exposes: ``Segue.log``, ``Segue.sessions.ls``."""
    handler: Handler
    """Returns a value of type ``returns``, or a Starlette ``Response`` if it streams."""
    summary: str
    returns: Any = None
    """The type of the answer; None: there is none (204)."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    status: int = 200
    max_body: int = 1 << 20
    media: str = "application/json"
    """The type of what is answered, for an answer that is not JSON; several with ``, `` between them."""
    open: bool = False
    """It is answered without a token."""
    headers: tuple[Header, ...] = ()
    local: bool = False
    """It belongs to the command line: over TCP it is refused before its body is read."""

    @property
    def success(self) -> int:
        """The status of an answer that is no error."""
        return 204 if self.returns is None and self.status == 200 else self.status

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters, in order."""
        return PARAMETER.findall(self.path)


class Found(NamedTuple):
    """The endpoint for a request, and the path's parameters."""

    endpoint: Endpoint
    path: Mapping[str, str]


class Table:
    """Finds the endpoint for a path.

    The path is matched before it is decoded. ``%2F`` is therefore part of a segment, and a key with a slash
    cannot be taken for two segments.
    """

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        self._exact: dict[str, dict[str, Endpoint]] = {}
        patterns: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            kind = patterns if endpoint.parameters else self._exact
            by_method = kind.setdefault(endpoint.path, {})
            if endpoint.method in by_method:
                raise ValueError(f"two endpoints for {endpoint.method} {endpoint.path}")
            by_method[endpoint.method] = endpoint
        self._patterns = [(_pattern(path), by_method) for path, by_method in sorted(patterns.items())]

    def find(self, method: str, raw_path: str) -> Found | frozenset[str]:
        """The endpoint, or the methods that the path has: none if nothing is there."""
        exact = _choose(method, self._exact.get(raw_path, {}), {})
        if isinstance(exact, Found):
            return exact
        allowed = exact
        for pattern, by_method in self._patterns:
            if match := pattern.fullmatch(raw_path):
                decoded = {name: unquote(value, errors="strict") for name, value in match.groupdict().items()}
                found = _choose(method, by_method, decoded)
                if isinstance(found, Found):
                    return found
                allowed |= found
        return allowed


def _choose(
    method: str, by_method: Mapping[str, Endpoint], path: Mapping[str, str]
) -> Found | frozenset[str]:
    wanted = "GET" if method == "HEAD" and "HEAD" not in by_method else method
    endpoint = by_method.get(wanted)
    return Found(endpoint, path) if endpoint is not None else frozenset(by_method)


def _pattern(path: str) -> re.Pattern[str]:
    """Literal text is matched as it is, a parameter as one segment that is not empty."""
    parts = PARAMETER.split(path)
    return re.compile(
        "".join(f"(?P<{part}>[^/]+)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
    )
