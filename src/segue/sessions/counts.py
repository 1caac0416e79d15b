"""What a resume of a session would restore and what not, and how full the model's window would be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from segue.agents.base import WindowRules
from segue.core.transcript import Brief, Entry, is_message


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a session, or of the part of it that was read."""

    messages: int = 0
    calls: int = 0
    side: int = 0
    boundaries: int = 0
    damaged: int = 0
    restored: dict[str, int] = {}
    """Other entries that a resume restores, by their label."""
    left: dict[str, int] = {}
    """Other entries that it does not restore."""
    whole: bool = True


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a resume would load, and the window. What the session does not say is None."""

    tokens: int | None
    reserved: int
    window: int | None
    compacts: bool | None
    """Whether the CLI would compact at once."""

    @property
    def share(self) -> float | None:
        return self.tokens / self.window if self.tokens is not None and self.window else None


def tally_of(entries: Iterable[Entry], whole: bool = True) -> Tally:
    messages = calls = side = boundaries = damaged = 0
    back: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for entry in entries:
        messages += is_message(entry)
        calls += entry.kind == "call" and not entry.side
        side += entry.side
        damaged += entry.kind == "damaged"
        boundaries += entry.kind == "boundary"
        if entry.kind in ("boundary", "state") and entry.label:
            (back if entry.restored else left)[entry.label] += 1
    return Tally(
        messages=messages,
        calls=calls,
        side=side,
        boundaries=boundaries,
        damaged=damaged,
        restored=dict(back),
        left=dict(left),
        whole=whole,
    )


def context_load(brief: Brief, rules: WindowRules, window: int | None = None) -> Load:
    """What a resume would load: the last request's input and what came after it."""
    window = brief.window or window or rules.window
    tokens = brief.context + brief.after if brief.context is not None else None
    compacts = None
    if tokens is not None and window:
        share = rules.compacts_at
        limit = min(window - rules.reserved, window * (share or 1)) - rules.margin
        compacts = share is not None and tokens >= limit
    return Load(tokens=tokens, reserved=rules.reserved, window=window, compacts=compacts)
