"""Tokens and money, with one meaning for every agent.

The CLIs report cumulative, overlapping or per-request figures. Here the three input counters are
disjoint, every figure is *this turn's*, and what is not known is ``None``, never 0.

Also how counts are written out, the same everywhere. Pure.
"""

from collections.abc import Iterable
from math import fsum
from typing import Literal

import msgspec

Grouping = Literal["day", "agent", "mode", "conversation", "version"]
"""What usage is added up by."""
Pays = Literal["subscription", "api_key", "cloud", "unknown"]
"""What pays for a turn: a login with a plan, an API key, a cloud's own bill."""
SeenIn = Literal["stream", "session", "app_server", "failure"]
"""Where a limit was seen: the CLI's output, its session file, its server, a refusal."""


def tokens_in_words(count: int | None) -> str:
    """``999``, ``1.2k``, ``200k``, ``1M``, ``3.1M``; what is unknown is ``?``."""
    if count is None:
        return "?"
    if count < 1_000:
        return str(count)
    if count < 999_500:
        return _short(count / 1_000, "k")
    return _short(count / 1_000_000, "M")


def count_in_words(number: int, thing: str, things: str | None = None) -> str:
    """``1 message``, ``3 messages``. ``things``: the plural, if it is irregular."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {things or f'{thing}s'}"


def _short(number: float, unit: str) -> str:
    shown = f"{number:.1f}" if number < 99.95 else f"{number:.0f}"
    return shown.removesuffix(".0") + unit


class Usage(msgspec.Struct, frozen=True):
    """Tokens of a turn. ``input`` counts what was neither read from nor written to a cache."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None

    @property
    def prompt(self) -> int | None:
        """Everything that was sent: uncached, read from and written to the cache."""
        known = [n for n in (self.input, self.cache_read, self.cache_write) if n is not None]
        return sum(known) if known else None

    def replaced_by(self, later: "Usage") -> "Usage":
        """This usage updated by a later report of the same request; figures missing there stay."""
        pairs = zip(_fields(self), _fields(later), strict=True)
        return Usage(*(old if new is None else new for old, new in pairs))

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(_add(a, b) for a, b in zip(_fields(self), _fields(other), strict=True)))


class Totals(msgspec.Struct, frozen=True):
    """A native session's running totals: the base from which the next turn's share is computed."""

    usage: Usage = Usage()
    cost_usd: float | None = None


class Context(msgspec.Struct, frozen=True):
    """How full the model's window is: the *last request's* input, against the window."""

    used: int | None = None
    window: int | None = None


class Limit(msgspec.Struct, frozen=True):
    """How much of a usage limit is used. ``window``: ``5h``, ``7d``, ``7d_opus``; ``unknown`` if a refusal
    does not name it. Times are milliseconds since 1970."""

    window: str
    used: float | None = None
    """From 0 to 1; 1: it is used up, or requests are refused."""
    resets_at: int | None = None
    source: SeenIn = "stream"
    seen_ms: int = 0


def seen_limits(limits: Iterable[Limit], now_ms: int, source: SeenIn = "stream") -> tuple[Limit, ...]:
    """The same limits with a bounded share, and with when and where they were seen."""
    return tuple(
        Limit(
            each.window,
            each.used if each.used is None else min(max(each.used, 0.0), 1.0),
            each.resets_at,
            source,
            now_ms,
        )
        for each in limits
    )


def window_name(minutes: int) -> str:
    """``5h`` for 300, ``7d`` for 10,080."""
    for unit, length in (("d", 1440), ("h", 60)):
        if minutes % length == 0:
            return f"{minutes // length}{unit}"
    return f"{minutes}m"


class LimitShown(msgspec.Struct, frozen=True):
    """A usage limit of an account, as it was last seen."""

    window: str
    used: float | None
    resets_at: int | None
    source: SeenIn
    age: int
    """Seconds since it was seen."""


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens of one model, and the date of the figures."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    dated: str = ""

    def cost(self, usage: Usage) -> float | None:
        """What the usage costs; ``None`` if the usage is unknown."""
        if usage.prompt is None and usage.output is None:
            return None
        parts = (
            (usage.input, self.input),
            (usage.cache_read, self.input if self.cache_read is None else self.cache_read),
            (usage.cache_write, self.input if self.cache_write is None else self.cache_write),
            (usage.output, self.output),
        )
        return fsum((tokens or 0) * rate for tokens, rate in parts) / 1_000_000


def since(total: Usage, base: Usage) -> Usage:
    """This turn's share of cumulative counters. A counter that went down was reset: it counts from zero."""
    return Usage(*(_since(a, b) for a, b in zip(_fields(total), _fields(base), strict=True)))


def cost_since(total: float | None, base: float | None) -> float | None:
    """This turn's share of a cumulative cost, by the same rule."""
    if total is None or base is None:
        return total
    return total if total < base else total - base


def disjoint(prompt: int | None, cached: int | None, output: int | None) -> Usage:
    """The usage reported by a provider whose cached tokens are a *subset* of its input tokens."""
    if prompt is None:
        return Usage(output=output)
    read = min(cached or 0, prompt)
    return Usage(input=prompt - read, cache_read=read, cache_write=0, output=output)


def _fields(usage: Usage) -> tuple[int | None, int | None, int | None, int | None]:
    return usage.input, usage.cache_read, usage.cache_write, usage.output


def _add(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _since(total: int | None, base: int | None) -> int | None:
    if total is None or base is None:
        return total
    return total if total < base else total - base
