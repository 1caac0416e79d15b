"""What a turn would use and cost on each rung, before it runs; and what continuing saved, after it ran.

Estimates: what the CLIs report is the truth. *New* tokens are those that no prompt cache serves. A turn of
several model requests sends all that came before again with each of them.
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
"""Tokens of an answer, where no turn has told yet."""


class Habits(msgspec.Struct, frozen=True):
    """What an agent and its provider do by themselves; the defaults stand for one that nobody measured."""

    cache_ms: int = 5 * MINUTE
    """How long after its last use a prompt is served from the cache; 0: no cache is known of."""
    overhead: int = 10_000
    """Tokens of a fresh session before anything is said: system prompt and tools."""
    any_prefix: bool = False
    """The cache serves any identical beginning, so a text that only grew is served as far as it was."""


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before a turn runs."""

    habits: Habits
    can: Capabilities
    text_bytes: dict[Mode, int]
    """What each rung would send as text; a rung that is not named is not predicted."""
    context: int | None = None
    """Tokens of the pinned session's last request."""
    idle_ms: int | None = None
    """Since the session's last success."""
    kept_share: float | None = None
    """How much of what was said a branch would keep; None: unknown, taken as all."""
    overhead: int | None = None
    """As learnt from earlier fresh turns of this agent."""
    overhead_warm: bool = False
    """The agent ran here a short while ago, so that its system prompt and tools are in the cache."""
    repeated: int = 0
    """Tokens of the text with which a replay would begin that the turn before had sent already."""
    output: int = EXPECTED_OUTPUT
    requests: int = 1
    """Model requests that a turn makes."""
    price: Price | None = None


class Predicted(msgspec.Struct, frozen=True):
    """One rung's figures. ``usd`` None: the model has no known price."""

    mode: Mode
    new_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: float | None


def predict(outlook: Outlook) -> tuple[Predicted, ...]:
    """The rungs that were asked about, from the top; those that nothing can be said of are left out."""
    rungs = (_predicted(mode, outlook) for mode in RUNGS if mode in outlook.text_bytes)
    return tuple(rung for rung in rungs if rung is not None)


def expected(known: Iterable[int | None], default: int = EXPECTED_OUTPUT) -> int:
    """What the last turns let expect of the next: their median."""
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
    """What a continued turn saved against a replay; less than nothing where continuing did not pay.

    ``growth``: tokens by which the turn's own tool calls and results filled its context, from the first of
    its requests to the last. They would have come with a replay too.
    """
    if usage.input is None and usage.cache_write is None:
        return Saved()
    new = replay_tokens + growth + (0 if overhead_warm else overhead)
    cached = overhead if overhead_warm else 0
    again = (requests - 1) * (replay_tokens + overhead + growth // 2)
    if usage.cache_read:
        cached += again
    else:
        new += again
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
    again = (outlook.requests - 1) * (new + cached)
    if outlook.habits.cache_ms:
        cached += again
    else:
        new += again
    return Predicted(mode, new, cached, outlook.output, _cost(outlook.price, new, cached, outlook.output))


def _continued(mode: Mode, outlook: Outlook) -> tuple[int, int] | None:
    """What the native session sends by itself, as new and as cached tokens."""
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
    """Where writing to the cache has a price, all that is new is written to it."""
    if price is None:
        return None
    plain, written = (new, 0) if price.cache_write is None else (0, new)
    return price.cost(Usage(plain, cached, written, output))
