"""What a turn would use and cost in each mode, before it runs; and what continuing saved, after it ran.

Estimates: what the CLIs report is the truth. *New* tokens are those that no prompt cache serves. In a turn
with several model requests, each request sends everything before it a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from segue.core.request import Capabilities
from segue.core.situation import RUNGS, tokens_of
from segue.core.turn import Mode, Saved
from segue.core.usage import Price, Usage

MINUTE = 60_000
EXPECTED_OUTPUT = 300
"""Tokens of an answer, if no earlier turn is known."""


class Habits(msgspec.Struct, frozen=True):
    """How an agent and its provider behave; the defaults are for one that was never measured."""

    cache_ms: int = 5 * MINUTE
    """How long after its last use a prompt is served from the cache; 0: no cache is known."""
    overhead: int = 10_000
    """Tokens of a fresh session before the first message: system prompt and tools."""
    any_prefix: bool = False
    """The cache serves any identical prefix, so the old part of a text that only grew is served."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before a turn runs."""

    habits: Habits
    can: Capabilities
    text_bytes: dict[Mode, int]
    """What each mode would send as text; a mode that is not listed is not predicted."""
    context: int | None = None
    """Tokens of the pinned session's last request."""
    idle_ms: int | None = None
    """Time since the session's last success."""
    kept_share: float | None = None
    """How much of the conversation a branch would keep; None: unknown, counted as all of it."""
    overhead: int | None = None
    """As seen in earlier fresh turns of this agent."""
    overhead_warm: bool = False
    """The agent ran here recently, so its system prompt and tools are in the cache."""
    repeated: int = 0
    """Tokens at the beginning of a replay that the previous turn already sent."""
    output: int = EXPECTED_OUTPUT
    requests: int = 1
    """The number of model requests in the turn."""
    price: Price | None = None


class Predicted(msgspec.Struct, frozen=True):
    """The figures of one mode. ``usd`` None: the price of the model is not known."""

    mode: Mode
    new_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: float | None


def predict(outlook: Outlook) -> tuple[Predicted, ...]:
    """The modes in ``text_bytes``, in the order of the ladder, without those that cannot be predicted."""
    figures = (_predicted(mode, outlook) for mode in RUNGS if mode in outlook.text_bytes)
    return tuple(each for each in figures if each is not None)


def expected(known: Iterable[int | None], default: int = EXPECTED_OUTPUT) -> int:
    """What to expect from the next turn: the median of the last ones."""
    values = sorted(value for value in known if value is not None)
    if not values:
        return default
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else round((values[middle - 1] + values[middle]) / 2)


def saved(
    usage: Usage,
    price: Price | None,
    *,
    replay_tokens: int,
    overhead: int,
    overhead_warm: bool = False,
    requests: int = 1,
    growth: int = 0,
) -> Saved:
    """What a continued turn saved compared with a replay; negative if continuing cost more.

    ``growth``: tokens that the turn's own tool calls and results added to its context, from its first request
    to its last. A replay would have had them too.
    """
    if usage.input is None and usage.cache_write is None:
        return Saved()
    new = replay_tokens + growth + (0 if overhead_warm else overhead)
    cached = overhead if overhead_warm else 0
    resent = (requests - 1) * (replay_tokens + overhead + growth // 2)
    if usage.cache_read:
        cached += resent
    else:
        new += resent
    spent = price.cost(usage) if price else None
    instead = _cost(price, new, cached, usage.output or 0)
    usd = instead - spent if instead is not None and spent is not None else None
    return Saved(new - (usage.input or 0) - (usage.cache_write or 0), usd, "replay", True)


def _predicted(mode: Mode, outlook: Outlook) -> Predicted | None:
    text = tokens_of(outlook.text_bytes[mode])
    before = _continued(mode, outlook) if mode in ("resume", "branch") else _anew(outlook)
    if before is None:
        return None
    served = min(text, outlook.repeated) if mode == "replay" and _serves_text(outlook) else 0
    new, cached = before[0] + text - served, before[1] + served
    resent = (outlook.requests - 1) * (new + cached)
    if outlook.habits.cache_ms:
        cached += resent
    else:
        new += resent
    return Predicted(mode, new, cached, outlook.output, _cost(outlook.price, new, cached, outlook.output))


def _continued(mode: Mode, outlook: Outlook) -> tuple[int, int] | None:
    """What the native session itself sends, as new and as cached tokens."""
    if outlook.context is None or not outlook.can.resume:
        return None
    habits, kept = outlook.habits, outlook.context
    warm = outlook.idle_ms is not None and outlook.idle_ms < habits.cache_ms
    if mode == "branch":
        overhead = min(_overhead(outlook), kept)
        kept = overhead + round(
            (kept - overhead) * (1.0 if outlook.kept_share is None else outlook.kept_share)
        )
        return (0, kept) if warm else (kept, 0)
    # The answer to the last request has not been sent to the model yet.
    return (outlook.output, kept) if warm else (outlook.output + kept, 0)


def _anew(outlook: Outlook) -> tuple[int, int]:
    overhead = _overhead(outlook)
    return (0, overhead) if outlook.overhead_warm and outlook.habits.cache_ms else (overhead, 0)


def _serves_text(outlook: Outlook) -> bool:
    return outlook.habits.any_prefix and outlook.overhead_warm


def _overhead(outlook: Outlook) -> int:
    return outlook.habits.overhead if outlook.overhead is None else outlook.overhead


def _cost(price: Price | None, new: int, cached: int, output: int) -> float | None:
    """If writing to the cache has a price, all new tokens are written to it."""
    if price is None:
        return None
    plain, written = (new, 0) if price.cache_write is None else (0, new)
    return price.cost(Usage(plain, cached, written, output))
