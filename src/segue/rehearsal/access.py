"""Access to the loopback model: only with this run's key, and only under a loopback host name.

Any user of the machine can reach 127.0.0.1, and a web page can reach it under its own host name. Neither gets
anything from the model: the requests it received may be confidential.
"""

from __future__ import annotations

from hmac import compare_digest

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
GUARDED = ("/v1", "/rehearsal/")
"""These paths need the key. CLIs call others without one, and get an empty answer."""


class AccessCheck:
    """Wraps the model's app. Refused requests are not logged."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._answer(Headers(scope=scope), QueryParams(scope["query_string"]), scope["path"])
        await answer(scope, receive, send)

    def _answer(self, headers: Headers, query: QueryParams, path: str) -> ASGIApp:
        if _name(headers.get("host", "")) not in LOOPBACK:
            return _refusal(403, "permission_error", "The model answers on loopback only.")
        if self._is_ours(headers, query):
            return self._app
        if path.startswith(GUARDED):
            return _refusal(401, "authentication_error", "This is not the key of this rehearsal.")
        return JSONResponse({})

    def _is_ours(self, headers: Headers, query: QueryParams) -> bool:
        """Whether the request has the key, wherever its provider puts it."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        shown = (
            bearer if scheme.lower() == "bearer" else "",
            headers.get("x-api-key", ""),
            headers.get("x-goog-api-key", ""),
            query.get("key", ""),
        )
        return any(compare_digest(each.strip().encode(), self._key.encode()) for each in shown)


def _name(host: str) -> str:
    """The host name without the port."""
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _refusal(status: int, kind: str, message: str) -> JSONResponse:
    return JSONResponse({"type": "error", "error": {"type": kind, "message": message}}, status)
