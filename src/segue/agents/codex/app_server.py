"""What Codex's own server tells about an account's usage limits: ``codex app-server``, JSON-RPC in lines.

It asks the provider how much is used; no model is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from segue.agents.decoding import DAMAGE, LimitsInquiry, LimitsTold
from segue.core.json_values import decode
from segue.core.usage import Limit, window_name

_ASKED = 2
INQUIRY = LimitsInquiry(
    args=("app-server",),
    sent=b"".join(
        msgspec.json.encode(each) + b"\n"
        for each in (
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "segue", "version": "1"}}},
            {"method": "initialized"},
            {"id": _ASKED, "method": "account/rateLimits/read"},
        )
    ),
)


class _Window(msgspec.Struct, frozen=True, rename="camel"):
    used_percent: float | None = None
    window_duration_mins: int | None = None
    resets_at: float | None = None


class _Limits(msgspec.Struct, frozen=True, rename="camel"):
    limit_id: str | None = None
    primary: _Window | None = None
    secondary: _Window | None = None

    def limits(self) -> Iterator[Limit]:
        own = "" if self.limit_id in (None, "codex") else f"_{self.limit_id}"
        for each in filter(None, (self.primary, self.secondary)):
            minutes = each.window_duration_mins
            name = "unknown" if minutes is None else window_name(minutes)
            used = None if each.used_percent is None else each.used_percent / 100
            resets_at = None if each.resets_at is None else int(each.resets_at * 1000)
            yield Limit(name + own, used, resets_at, "app_server")


class _Result(msgspec.Struct, frozen=True, rename="camel"):
    rate_limits: _Limits | None = None
    rate_limits_by_limit_id: dict[str, _Limits] | None = None


class _Error(msgspec.Struct, frozen=True):
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    id: int | str | None = None
    result: _Result | None = None
    error: _Error | None = None


class _Numbered(msgspec.Struct, frozen=True):
    id: int | str | None = None


def told(line: bytes) -> LimitsTold | None:
    """What a line of the server tells; None: it is not the answer."""
    try:
        if decode(line, _Numbered).id != _ASKED:
            return None
        answer = decode(line, _Answer)
    except DAMAGE:
        return None
    if answer.result is None:
        return LimitsTold(problem=(answer.error.message if answer.error else "") or "it told nothing")
    named = answer.result.rate_limits_by_limit_id
    every = named.values() if named else filter(None, (answer.result.rate_limits,))
    return LimitsTold(limits=tuple(limit for each in every for limit in each.limits()))
