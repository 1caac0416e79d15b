"""What an error is called over HTTP: ``application/problem+json`` with a ``kind`` from one list.

A client decides by ``kind``. ``detail`` is one line for people. No answer ever contains a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
from starlette.responses import Response

from segue.core.errors import (
    Broken,
    Conflict,
    DaemonUnavailable,
    Gone,
    InUse,
    Misuse,
    NotFound,
    SegueError,
    StoreAway,
)

Kind = Literal[
    "misuse",
    "bad_request",
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "conversation_busy",
    "conflict",
    "gone",
    "too_large",
    "unsupported_media",
    "rate_limited",
    "internal",
    "unavailable",
]
STATUS: Mapping[Kind, int] = {
    "misuse": 422,
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conversation_busy": 409,
    "conflict": 409,
    "gone": 410,
    "too_large": 413,
    "unsupported_media": 415,
    "rate_limited": 429,
    "internal": 500,
    "unavailable": 503,
}
TITLES: Mapping[Kind, str] = {
    "misuse": "The input cannot be used",
    "bad_request": "The request cannot be understood",
    "unauthorized": "The token is missing or wrong",
    "forbidden": "Not allowed",
    "not_found": "It does not exist",
    "method_not_allowed": "This path has other methods",
    "conversation_busy": "A turn of the conversation is running",
    "conflict": "Something else was done before",
    "gone": "It is no longer there",
    "too_large": "The request is too large",
    "unsupported_media": "The body has the wrong type",
    "rate_limited": "Too many failed attempts",
    "internal": "Internal error",
    "unavailable": "Try again later",
}
KINDS: tuple[Kind, ...] = get_args(Kind)
MEDIA = "application/problem+json"
BY_CLASS: tuple[tuple[type[SegueError], Kind], ...] = (
    (NotFound, "not_found"),
    (Conflict, "conflict"),
    (Gone, "gone"),
    (InUse, "conversation_busy"),
    (StoreAway, "unavailable"),
    (DaemonUnavailable, "unavailable"),
    (Misuse, "misuse"),
    (Broken, "internal"),
)
"""The first class that fits."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed."""

    type: Literal["about:blank"] = "about:blank"
    title: str
    status: int
    detail: str
    kind: Kind
    page: Any | msgspec.UnsetType = msgspec.UNSET
    """With ``gone``: a fresh first page, to go on from."""


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is answered with a problem."""

    def __init__(
        self, kind: Kind, detail: str, *, headers: Mapping[str, str] | None = None, page: Any = msgspec.UNSET
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.headers, self.page = kind, detail, dict(headers or {}), page

    @property
    def problem(self) -> Problem:
        return Problem(
            title=TITLES[self.kind],
            status=STATUS[self.kind],
            detail=self.detail,
            kind=self.kind,
            page=self.page,
        )


def refusal(error: Exception) -> Refused:
    """The answer to an error. One that nobody expected says nothing about what went wrong inside."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, SegueError):
        kind: Kind = next((kind for each, kind in BY_CLASS if isinstance(error, each)), "internal")
        return Refused(kind, " ".join(error.message.split()))
    return Refused("internal", "something went wrong inside Segue; the daemon's log says where")


def response(refused: Refused) -> Response:
    body = msgspec.json.encode(refused.problem)
    return Response(body, STATUS[refused.kind], headers=refused.headers, media_type=MEDIA)
