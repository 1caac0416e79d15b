"""Usage limits: which count, how they are merged, what is said about them."""

from __future__ import annotations

import pytest
from tests.unit.core.situations import broken, situation

from segue.core.ladder import decide
from segue.core.limits import (
    current,
    merged,
    paid_otherwise,
    shown,
    span_in_words,
    wait_until,
    with_refusal,
)
from segue.core.outcome import Failure, Outcome
from segue.core.turn import Check
from segue.core.usage import Limit, LimitShown, Pays, seen_limits, window_name

HOUR = 3_600_000
FIVE, WEEK = Limit("5h", 0.82, 10 * HOUR, seen_ms=HOUR), Limit("7d", 0.31, 100 * HOUR, seen_ms=HOUR)


def check_of(**facts: object) -> Check:
    return next(each for each in decide(situation(**facts)).checks if each.check == "limits")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "now_ms", "counts"),
    [
        (FIVE, 2 * HOUR, True),
        (FIVE, 10 * HOUR - 1, True),
        (FIVE, 10 * HOUR, False),
        (Limit("5h", 0.5, None, seen_ms=HOUR), 5 * HOUR, True),
        (Limit("5h", 0.5, None, seen_ms=HOUR), 6 * HOUR, False),
    ],
)
def test_a_limit_counts_until_it_is_reset(limit: Limit, now_ms: int, counts: bool) -> None:
    assert current([limit], now_ms) == ((limit,) if counts else ())


def test_what_is_shown_has_an_age_in_seconds() -> None:
    assert shown([FIVE, Limit("30d", 0.5, HOUR)], 2 * HOUR) == (
        LimitShown("5h", 0.82, 10 * HOUR, "stream", 3600),
    )
    silent = LimitShown("5h", None, 10 * HOUR, "stream", 0)
    assert shown([Limit("5h", None, 10 * HOUR)], 0) == (silent,)


def test_unknown_limits_are_none_and_not_an_empty_list() -> None:
    assert shown([], 0) is None
    assert shown([FIVE], 10 * HOUR) is None, "its reset has passed"


def test_the_latest_per_window_counts() -> None:
    later = Limit("5h", 0.9, 10 * HOUR, seen_ms=2 * HOUR)
    assert merged([WEEK, FIVE], [later]) == (later, WEEK)
    silent = Limit("5h", None, 10 * HOUR, seen_ms=2 * HOUR)
    assert merged([FIVE], [silent]) == (FIVE,), "it says less about the same period"
    renewed = Limit("5h", None, 15 * HOUR, seen_ms=2 * HOUR)
    assert merged([FIVE], [renewed]) == (renewed,)


def test_a_refusal_that_names_no_window_is_a_limit() -> None:
    refused = Outcome(failure=Failure("rate_limited", "no", until=9 * HOUR), limits=(WEEK,))
    unnamed = Limit("unknown", 1.0, 9 * HOUR, "failure", 2 * HOUR)
    assert with_refusal(refused, 2 * HOUR) == (WEEK, unnamed)
    full = Limit("5h", 1.0, 9 * HOUR)
    named = Outcome(failure=refused.failure, limits=(full,))
    assert with_refusal(named, 2 * HOUR) == (full,)


@pytest.mark.parametrize("failure", [None, Failure("rate_limited", "no"), Failure("network", "no", until=5)])
def test_other_ends_say_nothing_about_limits(failure: Failure | None) -> None:
    assert with_refusal(Outcome(failure=failure), 1) == ()


def test_a_share_is_bounded_and_stays_unknown() -> None:
    seen = seen_limits([Limit("5h", 1.2), Limit("7d", None), Limit("1d", 0.0)], 7, "session")
    assert seen == (
        Limit("5h", 1.0, None, "session", 7),
        Limit("7d", None, None, "session", 7),
        Limit("1d", 0.0, None, "session", 7),
    )


@pytest.mark.parametrize(("minutes", "name"), [(300, "5h"), (10_080, "7d"), (90, "90m"), (43_200, "30d")])
def test_a_window_is_named_by_its_length(minutes: int, name: str) -> None:
    assert window_name(minutes) == name


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (1, "1 s"),
        (45_000, "45 s"),
        (12 * 60_000, "12 min"),
        (2 * HOUR, "2 h"),
        (2 * HOUR + 5 * 60_000, "2 h 5 min"),
        (76 * HOUR, "3 d 4 h"),
    ],
)
def test_a_time_in_words(ms: int, words: str) -> None:
    assert span_in_words(ms) == words


def test_the_check_says_how_much_is_used_and_when_it_is_reset() -> None:
    now = {"now_ms": 10 * HOUR}
    near = (Limit("5h", 0.93, 12 * HOUR), Limit("7d_opus", 0.2, 90 * HOUR))
    assert check_of(limits=near, **now).detail == "5h limit 93% used, resets in 2 h"
    used_up = (Limit("unknown", 1.0, 10 * HOUR + 30_000, "failure"),)
    assert check_of(limits=used_up, **now).detail == "usage limit used up, resets in 30 s"
    fine = (Limit("5h", 0.82, 12 * HOUR), Limit("7d_opus", 0.2, 90 * HOUR))
    is_fine = check_of(limits=fine, **now)
    assert (is_fine.verdict, is_fine.detail) == ("pass", "5h limit 82% used, 7d opus limit 20% used")
    assert check_of(limits=(Limit("5h", 0.93),), now_ms=0).detail == "5h limit 93% used"


def test_the_check_warns_and_bars_nothing() -> None:
    for wrong in ("nearly used up", "refused", "paid otherwise"):
        decision = decide(broken(wrong))
        assert decision.mode == decide(situation()).mode
        assert next(each for each in decision.checks if each.check == "limits").bars == ()


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("subscription", "api_key", "now paid by an API key, before by a subscription"),
        ("api_key", "cloud", "now paid by a cloud account, before by an API key"),
        ("api_key", "api_key", None),
        ("unknown", "api_key", None),
        ("api_key", "unknown", None),
    ],
)
def test_what_pays_now_and_before(before: Pays, now: Pays, said: str | None) -> None:
    told = paid_otherwise(before, now)
    assert (told.text if told is not None else None) == said


@pytest.mark.parametrize(
    ("until_s", "wakes", "waits_s"),
    [
        (1, 0, 1),
        (1, 1, 30),
        (1, 2, 60),
        (1, 6, 960),
        (1, 7, 1800),
        (1, 5000, 1800),
        (45, 1, 45),
        (7200, 9, 7200),
        (-5, 0, -5),
        (-5, 1, 30),
    ],
)
def test_a_run_that_wakes_and_meets_a_limit_again_waits_longer_each_time(
    until_s: int, wakes: int, waits_s: int
) -> None:
    assert wait_until(HOUR + until_s * 1000, HOUR, wakes) == HOUR + waits_s * 1000


def test_how_long_it_waits_at_least_is_a_value() -> None:
    waits = [wait_until(0, 0, wakes, first_ms=3, longest_ms=10) for wakes in (1, 2, 3, 4)]
    assert waits == [3, 6, 10, 10]
