"""How long a flow has really worked: time in which it was parked, suspended or paused does not count."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]
"""From when to when, in epoch milliseconds."""


def worked_ms(spans: Iterable[Span], since_ms: int, until_ms: int) -> int:
    """How much of the time between the two is in the spans. What they have in common counts once."""
    total, reached = 0, since_ms
    for began, ended in sorted(spans):
        first, last = max(began, reached), min(ended, until_ms)
        if last > first:
            total, reached = total + last - first, last
    return total
