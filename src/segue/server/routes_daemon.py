"""Routes about the daemon itself: health, status, the login of a browser, the documentation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

import msgspec
from anyio.to_thread import run_sync
from starlette.responses import RedirectResponse, Response

from segue import __version__
from segue.app.runs import count_questions, count_runs
from segue.server.endpoint import Call, Endpoint
from segue.server.presence import (
    CAPABILITIES,
    PROTOCOL,
    DaemonStatus,
    Health,
    LoginLink,
    resident_bytes,
)
from segue.server.problems import Refused

if TYPE_CHECKING:
    from segue.server.access import Access

HTML = "text/html; charset=utf-8"
VENDOR: Mapping[str, str] = {"rapidoc-9.3.8.min.js": "text/javascript; charset=utf-8"}
"""The files that are served, by name: no other path can be asked for."""
DOCS_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
)
"""The documentation page sets styles in its elements."""


class LoginQuery(msgspec.Struct, frozen=True):
    """The code of a one-time link."""

    code: str


async def health(call: Call) -> Health:
    return Health(ok=True, version=__version__, protocol=PROTOCOL, capabilities=CAPABILITIES, pid=os.getpid())


async def status(call: Call) -> DaemonStatus:
    return DaemonStatus(
        url=_access(call).url,
        pid=os.getpid(),
        version=__version__,
        protocol=PROTOCOL,
        started=call.state.get("started", 0),
        memory=resident_bytes(os.getpid()),
        runs=await run_sync(count_runs, call.segue.workspace),
        questions=await run_sync(count_questions, call.segue.workspace),
    )


async def login_link(call: Call) -> LoginLink:
    return LoginLink(url=_access(call).make_link())


async def login(call: Call) -> Response:
    cookie = _access(call).redeem(call.query.code)
    return RedirectResponse("/", 303, headers={"set-cookie": cookie})


async def login_seen(call: Call) -> None:
    """Whoever only looks at a link, such as a preview, does not use it up."""


async def docs(call: Call) -> Response:
    page = _static("docs.html")
    return Response(page, media_type=HTML, headers={"content-security-policy": DOCS_POLICY})


async def openapi(call: Call) -> Response:
    from segue.server.api import endpoints
    from segue.server.openapi import document

    listed = tuple(each for each in endpoints() if each.path.startswith("/api/v1/"))
    return Response(document(listed, _access(call).url), media_type="application/json")


async def vendored(call: Call) -> Response:
    media = VENDOR.get(call.path["name"])
    if media is None:
        raise Refused("not_found", "there is no such file")
    data = _static(f"vendor/{call.path['name']}.gz")
    headers = {"content-encoding": "gzip", "cache-control": "max-age=86400"}
    return Response(data, media_type=media, headers=headers)


def _access(call: Call) -> Access:
    return cast("Access", call.state["access"])


@cache
def _static(name: str) -> bytes:
    return files("segue.server").joinpath("static", name).read_bytes()


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/api/v1/health",
        calls=(),
        handler=health,
        summary="Whether the daemon answers, and what it can do. Needs no token",
        returns=Health,
        open=True,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/status",
        calls=(),
        handler=status,
        summary="Where the daemon listens, since when, its memory and its unfinished runs",
        returns=DaemonStatus,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/login-links",
        calls=(),
        handler=login_link,
        summary="A link that logs one browser in, once, within five minutes",
        returns=LoginLink,
        status=201,
    ),
    Endpoint("GET", "/login", (), login, "Log a browser in", query=LoginQuery, status=303, open=True),
    Endpoint("HEAD", "/login", (), login_seen, "Look at a link", query=LoginQuery, open=True),
    Endpoint("GET", "/api/docs", (), docs, "This documentation, to read", returns=str, media=HTML),
    Endpoint("GET", "/api/openapi.json", (), openapi, "The OpenAPI document", returns=dict),
    Endpoint("GET", "/api/static/vendor/{name}", (), vendored, "A file of the documentation", returns=bytes),
)
