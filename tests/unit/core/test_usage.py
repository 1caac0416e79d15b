"""Tokens and money: sums, shares of cumulative counters, prices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.usage import Price, Usage, cost_since, disjoint, since

counts = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, counts)


@given(usages, usages)
def test_what_was_added_is_this_turns_share(base: Usage, turn: Usage) -> None:
    share = since(base + turn, base)
    for part, whole, old in zip(
        (share.input, share.output), (turn.input, turn.output), (base.input, base.output), strict=True
    ):
        assert part == ((whole or 0) if old is not None else whole)


@pytest.mark.parametrize(
    ("total", "base", "share"),
    [(30, 20, 10), (20, 20, 0), (5, 20, 5), (None, 20, None), (7, None, 7)],
)
def test_a_counter_that_fell_was_reset(total: int | None, base: int | None, share: int | None) -> None:
    assert since(Usage(input=total), Usage(input=base)).input == share
    money = cost_since(None if total is None else float(total), None if base is None else float(base))
    assert money == share


@pytest.mark.parametrize(
    ("prompt", "cached", "expected"),
    [
        (100, 60, Usage(40, 60, 0, 9)),
        (100, None, Usage(100, 0, 0, 9)),
        (100, 120, Usage(0, 100, 0, 9)),
        (None, 60, Usage(output=9)),
    ],
)
def test_cached_tokens_that_are_a_subset_become_disjoint(
    prompt: int | None, cached: int | None, expected: Usage
) -> None:
    assert disjoint(prompt, cached, 9) == expected


def test_what_is_unknown_stays_unknown() -> None:
    assert (Usage() + Usage(output=3)).input is None
    assert Usage().prompt is None
    assert Price(1.0, 2.0).cost(Usage()) is None


def test_a_price_counts_each_kind_of_token_at_its_rate() -> None:
    price = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
    assert price.cost(Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)) == pytest.approx(22.05)
    assert Price(input=3.0, output=15.0).cost(Usage(0, 1_000_000, 0, 0)) == pytest.approx(3.0)
