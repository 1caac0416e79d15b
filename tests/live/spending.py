"""What the loopback model has served, at list prices: its own account, to check ours against."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import NamedTuple

from segue.rehearsal.log import LoggedRequest


class Rates(NamedTuple):
    """US dollars per million tokens."""

    input: float
    cache_read: float
    cache_write: float
    output: float


RATES = {
    "claude-haiku-5-5": Rates(0.1, 0.005, 0.125, 0.5),
    "claude-sonnet-5-5": Rates(2, 0.1, 2.5, 10),
    "claude-opus-5-5": Rates(4, 0.2, 5, 20),
    "gpt-5.5": Rates(5, 0.5, 5, 30),
}
"""Of the models that the newest pinned CLIs use, as Claude counts them itself; any other fails the test."""


def spent_usd(requests: Iterable[LoggedRequest]) -> float:
    """What all these requests cost, those that are not part of a conversation included."""
    costs = []
    for each in requests:
        rates = RATES[each.model]
        costs += [getattr(each.usage, name) * rate for name, rate in zip(Rates._fields, rates, strict=True)]
    return fsum(costs) / 1_000_000
