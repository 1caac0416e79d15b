"""How long a turn that failed waits before it is tried again, if it is."""

from __future__ import annotations

import pytest

from segue.core.turn import FailureShown, Sent, Turn
from segue.core.usage import Context, Usage
from segue.turns.retries import LATE_S, LONGEST_S, pause_s

NOW = 1_000_000


def failed(failure: FailureShown | None, tools_run: int | None = 0) -> Turn:
    return Turn(
        run="r",
        conversation="t",
        agent="rehearsal",
        account=None,
        model=None,
        mode="fresh",
        resumed=False,
        session_id=None,
        sent=Sent(),
        text="",
        status="ok" if failure is None else "failed",
        failure=failure,
        usage=Usage(),
        cost_usd=None,
        cost_estimated=False,
        context=Context(),
        model_turns=None,
        tools_run=tools_run,
        attempts=(),
        duration_ms=1,
    )


def limited(until: int | None = None) -> FailureShown:
    return FailureShown("rate_limited", None, "x", True, until)


@pytest.mark.parametrize(
    ("tried", "chance", "wanted"),
    [
        (0, 0.0, 1.0),
        (0, 1.0, 2.0),
        (1, 1.0, 4.0),
        (2, 0.5, 6.0),
        (10, 1.0, LONGEST_S),
        (2000, 0.0, LONGEST_S / 2),
    ],
)
def test_it_waits_longer_each_time_but_not_without_end(tried: int, chance: float, wanted: float) -> None:
    assert pause_s(failed(limited()), tried, NOW, chance) == wanted


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_it_waits_until_the_limit_ends_and_never_less(chance: float) -> None:
    assert pause_s(failed(limited(NOW + 90_000)), 0, NOW, chance) == 90 + chance * LATE_S


def test_a_limit_that_has_ended_is_none() -> None:
    assert pause_s(failed(limited(NOW - 1)), 0, NOW, 1.0) == 2.0


@pytest.mark.parametrize(
    "turn",
    [
        failed(None),
        failed(FailureShown("auth", None, "x", False)),
        failed(FailureShown("unsettled", None, "x", False)),
        failed(limited(), tools_run=None),
    ],
    ids=["it went well", "it will not pass", "it is done", "what it did is not known"],
)
def test_what_another_try_would_not_help_or_may_repeat_is_not_tried(turn: Turn) -> None:
    assert pause_s(turn, 0, NOW, 0.5) is None
