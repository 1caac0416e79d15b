"""What models cost, for CLIs that do not report costs: a dated table that the section ``[prices]`` overrides.

List prices in US dollars per million tokens, at the smallest context tier; batch and priority rates are
not included. A cost that comes from this table is an estimate and is marked as one. A model that is
not listed has no price: unknown is better than wrong.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from segue.core.usage import Price

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
_DATE = r"-(20\d{6}|20\d\d-\d\d-\d\d)$"
_VARIANT = r"\[[^\]]*\]$"


def _anthropic(fresh: float, output: float, dated: str) -> Price:
    """Anthropic's rule: reading from the cache costs 0.1 of the input price, writing (5 minutes) 1.25."""
    return Price(fresh, output, round(fresh * 0.1, 4), round(fresh * 1.25, 4), dated)


def _cached(fresh: float, output: float, cache_read: float, dated: str) -> Price:
    """Providers that cache automatically: reading is cheaper, writing costs what input costs."""
    return Price(fresh, output, cache_read, None, dated)


TABLE: Mapping[str, Price] = {
    "claude-opus-4": _anthropic(15, 75, "2026-08-05"),
    "claude-opus-4-[01]": _anthropic(15, 75, "2026-08-05"),
    "claude-opus-4-[5-8]": _anthropic(5, 25, "2026-08-05"),
    "claude-opus-5-5": Price(4, 20, 0.2, 5, "2026-11-15"),  # as in Claude Code 2.1.325
    "claude-sonnet-4": _anthropic(3, 15, "2025-05-22"),
    "claude-sonnet-4-[056]": _anthropic(3, 15, "2026-08-05"),
    "claude-haiku-4-5": _anthropic(1, 5, "2026-08-05"),
    "gpt-5": _cached(1.25, 10, 0.125, "2026-08-05"),
    "gpt-5-codex": _cached(1.25, 10, 0.125, "2025-09-23"),
    "gpt-5-mini": _cached(0.25, 2, 0.025, "2026-08-05"),
    "gpt-5-nano": _cached(0.05, 0.4, 0.005, "2026-08-05"),
    "gpt-5-pro": Price(15, 120, dated="2026-08-05"),
    "gpt-5.1": _cached(1.25, 10, 0.125, "2026-08-05"),
    "gpt-5.1-codex": _cached(1.25, 10, 0.125, "2026-08-05"),
    "gpt-5.1-codex-max": _cached(1.25, 10, 0.125, "2025-12-04"),
    "gpt-5.1-codex-mini": _cached(0.25, 2, 0.025, "2026-08-05"),
    "gpt-5.2": _cached(1.75, 14, 0.175, "2026-08-05"),
    "gpt-5.2-codex": _cached(1.75, 14, 0.175, "2026-01-14"),
    "gpt-5.2-pro": Price(21, 168, dated="2026-08-05"),
    "gpt-5.4": _cached(2.5, 15, 0.25, "2026-08-05"),
    "gpt-5.4-mini": _cached(0.75, 4.5, 0.075, "2026-08-05"),
    "gpt-5.4-nano": _cached(0.2, 1.25, 0.02, "2026-08-05"),
    "gpt-5.5": _cached(5, 30, 0.5, "2026-08-05"),
    "gpt-5.6-sol": _cached(5, 30, 0.5, "2026-08-05"),
    "gpt-5.6-terra": _cached(2, 12, 0.2, "2026-08-05"),
    "gpt-5.6-luna": _cached(0.2, 1.2, 0.02, "2026-08-05"),
    "codex-mini-latest": _cached(1.5, 6, 0.375, "2025-05-16"),
    "gemini-2.5-pro": _cached(1.25, 10, 0.125, "2026-08-05"),
    "gemini-2.5-flash": _cached(0.3, 2.5, 0.03, "2026-08-05"),
    "gemini-2.5-flash-lite": _cached(0.1, 0.4, 0.01, "2026-08-05"),
    "gemini-3-pro-preview": _cached(2, 12, 0.2, "2025-11-18"),
    "gemini-3-flash-preview": _cached(0.5, 3, 0.05, "2025-12-17"),
    "gemini-3.1-pro-preview*": _cached(2, 12, 0.2, "2026-02-19"),
    "gemini-3.1-flash-lite*": _cached(0.25, 1.5, 0.025, "2026-08-05"),
    "gemini-3.5-flash": _cached(1.5, 9, 0.15, "2026-08-05"),
    "gemini-3.5-flash-lite": _cached(0.3, 2.5, 0.03, "2026-08-05"),
    "codestral-latest": Price(0.3, 0.9, dated="2026-08-05"),
    "devstral-2512": Price(0.4, 2, dated="2025-12-09"),
    "devstral-medium-2507": Price(0.4, 2, dated="2025-07-10"),
    "devstral-small-latest": Price(0.1, 0.3, dated="2025-12-09"),
    "mistral-medium-250[58]": Price(0.4, 2, dated="2026-08-05"),
    "mistral-small-latest": Price(0.1, 0.3, dated="2026-08-05"),
}


def price_for(model: str, overrides: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model: the longest glob that matches its name, the user's own table first."""
    for table in (overrides or {}, TABLE):
        found = entry_for(model, table)
        if found is not None:
            return found
    return None


def entry_for(model: str, table: Mapping[str, T]) -> T | None:
    """What a table of globs has for a model: the longest glob that matches its name counts."""
    names = _names(model)
    matching = [glob for glob in table if _matches(glob, names)]
    return table[max(matching, key=len)] if matching else None


def _matches(glob: str, names: tuple[str, ...]) -> bool:
    """Each glob that is tried is compiled first, so those that cannot match are not tried."""
    literal = re.split(r"[*?[]", glob, maxsplit=1)[0]
    if literal == glob:
        return glob in names
    return any(name.startswith(literal) and fnmatchcase(name, glob) for name in names)


def _names(model: str) -> tuple[str, ...]:
    """The name as given, and without provider, date and variant: all have the same price."""
    bare = re.sub(_VARIANT, "", model.strip().lower().rpartition("/")[2])
    return model, bare, re.sub(_DATE, "", bare)
