"""The application: finds the endpoint of a request, decodes what it is given, and encodes what it returns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from segue.server import log, problems
from segue.server.access import LOCAL, SECURITY_HEADERS, Access
from segue.server.endpoint import Call, Endpoint, Found, Table
from segue.server.large_answer import large_answer
from segue.server.problems import Refused

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from segue.app.segue import Segue

ROUTES = (
    "routes_daemon",
    "routes_page",
    "routes_core",
    "routes_conversations",
    "routes_sessions",
    "routes_runs",
    "routes_flows",
    "routes_accounts",
    "routes_local",
)
"""The modules of this package that have ``ENDPOINTS``."""
JSON, EVENTS = "application/json", "text/event-stream"
CLOSE = {"connection": "close"}
"""Sent if the body was not read."""
NO_BODY_BYTES = 64
"""The largest body where none is needed: room for an empty object."""
ENDING = "ending"
"""In ``Call.state``: an event that is set when the daemon ends. Streams that never end are ended by it."""
ANSWERED = "answered"
"""In ``Call.state``: an event that is set after the first answer. That the daemon lives is no answer."""


@cache
def endpoints() -> tuple[Endpoint, ...]:
    """All endpoints, in the order of the documentation."""
    found: list[Endpoint] = []
    for name in ROUTES:
        found.extend(import_module(f"segue.server.{name}").ENDPOINTS)
    return tuple(found)


def make_app(segue: Segue, access: Access, state: Mapping[str, Any] | None = None) -> Starlette:
    """The application. ``state``: what handlers find in ``Call.state``. ``segue`` is opened by the caller."""
    app = Starlette()
    # Not as a route: no pattern of Starlette's matches a path with a line break in it.
    app.router.default = Api(segue, access, {"access": access, **(state or {})})
    return app


class Api:
    """Answers requests. Every answer has the security headers, and every request a line in the log."""

    def __init__(self, segue: Segue, access: Access, state: Mapping[str, Any]) -> None:
        self._segue, self._access, self._state = segue, access, state
        self._table = Table(endpoints())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 500
        raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        found: Found | frozenset[str] = frozenset()

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            found = self._find(scope["method"], raw_path)
            is_open = isinstance(found, Found) and found.endpoint.open
            self._access.check(scope, headers, is_open=is_open)
            answer = await self._answer(_needed(found), scope, headers, receive)
        except Exception as error:
            refused = problems.refusal(error)
            if refused.kind == "internal":
                log.log_failure(error)
            answer = problems.response(refused)
        try:
            if answer.media_type == EVENTS and ENDING in self._state:
                await _send_until(self._state[ENDING], answer, scope, receive, send_guarded)
            else:
                await answer(scope, receive, send_guarded)
        finally:
            ms = round((time.monotonic() - began) * 1000)
            path = log.shown_path(raw_path, found if isinstance(found, Found) else None)
            log.log_request(scope["method"], path, status, ms)
            if ANSWERED in self._state and path != log.QUIET:
                self._state[ANSWERED].set()

    def _find(self, method: str, raw_path: str) -> Found | frozenset[str]:
        try:
            return self._table.find(method, raw_path)
        except UnicodeDecodeError:  # no key is written like that
            return frozenset()

    async def _answer(
        self, found: Found, scope: Scope, headers: Mapping[str, str], receive: Receive
    ) -> Response:
        endpoint, local = found.endpoint, bool(scope.get(LOCAL))
        if endpoint.local and not local:
            raise Refused("forbidden", "this is answered over the Unix socket only", headers=CLOSE)
        query = query_of(endpoint, scope["query_string"])
        body = await _body(endpoint, headers, receive)
        call = Call(self._segue, found.path, query, body, headers, self._state, local)
        result = await endpoint.handler(call)
        if isinstance(result, Response):
            return result
        if endpoint.returns is None:
            return Response(status_code=endpoint.success)
        if endpoint.large:
            return await large_answer(result, endpoint.success, JSON)
        return Response(msgspec.json.encode(result), endpoint.success, media_type=JSON)


async def _send_until(
    ending: asyncio.Event, answer: Response, scope: Scope, receive: Receive, send: Send
) -> None:
    """Send a stream. When the daemon ends, it is told that its reader is gone, and completed."""

    async def receive_or_end() -> Message:
        waits = asyncio.ensure_future(receive()), asyncio.ensure_future(ending.wait())
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return waits[0].result() if waits[0].done() else {"type": "http.disconnect"}
        finally:
            for each in waits:
                each.cancel()

    await answer(scope, receive_or_end, send)
    if ending.is_set():
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _needed(found: Found | frozenset[str]) -> Found:
    """The endpoint, or a refusal. Who may not ask has been refused before, and is not told what there is."""
    if isinstance(found, Found):
        return found
    if not found:
        raise Refused("not_found", "there is nothing at this path; GET /api/openapi.json lists all paths")
    allowed = ", ".join(sorted(found))
    raise Refused("method_not_allowed", f"this path has {allowed}", headers={"allow": allowed})


def query_of(endpoint: Endpoint, raw: bytes) -> Any:
    """The parameters of a query. One that is unknown or given twice is refused, never ignored."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict"
        )
    except ValueError:  # includes UnicodeDecodeError
        raise Refused("bad_request", "the query cannot be understood") from None
    lists = _lists(endpoint.query) if endpoint.query is not None else {}
    given: dict[str, Any] = {}
    for name, value in pairs:
        if name not in lists:
            raise Refused(
                "misuse", f"there is no parameter {name[:80]!r} here; known: {', '.join(lists) or 'none'}"
            )
        if lists[name]:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Refused("misuse", f"the parameter {name!r} was given twice")
        else:
            given[name] = value
    if endpoint.query is None:
        return None
    try:
        return msgspec.convert(given, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise Refused("misuse", f"the query is wrong: {error}") from None


@cache
def _lists(query: type[msgspec.Struct]) -> dict[str, bool]:
    """The names of the parameters, and whether each can be given several times."""
    info = msgspec.inspect.type_info(query)
    assert isinstance(info, msgspec.inspect.StructType)
    many = (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)
    return {field.encode_name: isinstance(field.type, many) for field in info.fields}


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be sent where no body is needed: an empty object."""


async def _body(endpoint: Endpoint, headers: Mapping[str, str], receive: Receive) -> Any:
    limit = endpoint.max_body if endpoint.body is not None else NO_BODY_BYTES
    data = await _read(receive, headers, limit)
    if endpoint.body is None and not data:
        return None
    if data and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refused("unsupported_media", f"send the body as {JSON}")
    try:
        decoded: Any = msgspec.json.decode(data or b"{}", type=endpoint.body or NoBody)
        return decoded if endpoint.body is not None else None
    except msgspec.ValidationError as error:
        raise Refused("misuse", f"the body is wrong: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused("bad_request", "the body is not JSON") from None


async def _read(receive: Receive, headers: Mapping[str, str], limit: int) -> bytes:
    """The whole body, or ``Refused`` as soon as it is too large."""
    too_large = Refused("too_large", f"the body may have at most {limit:,} bytes", headers=CLOSE)
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    if length == "0" and "transfer-encoding" not in headers:
        return b""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("bad_request", "the connection was closed before the body was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)
