"""What follows from how a turn of a flow ended."""

from __future__ import annotations

import pytest

from segue.core.outcome import Kind
from segue.core.turn import FailureShown, Sent, State, Turn, status_of
from segue.core.usage import Context, Usage
from segue.flows.aftermath import LONGEST_MS, MOST_TRIES, judge, pause_ms, tries_like

NOW = 1_000_000


def turn(
    kind: Kind | None = None, state: State = "failed", until: int | None = None, retryable: bool = True
) -> Turn:
    failure = FailureShown(kind, None, "", retryable, until) if kind is not None else None
    return Turn(
        run="r",
        conversation="k",
        agent="rehearsal",
        account=None,
        model=None,
        mode="fresh",
        resumed=False,
        session_id=None,
        sent=Sent(),
        text="",
        state=state if failure is not None else "done",
        status=status_of(state) or "failed",
        failure=failure,
        usage=Usage(),
        cost_usd=None,
        cost_estimated=False,
        context=Context(),
        model_turns=None,
        tools_run=0,
        attempts=(),
        duration_ms=1,
    )


@pytest.mark.parametrize(
    ("ended", "tries", "what", "wake_ms"),
    [
        (turn(), 1, "done", None),
        (turn("killed"), 1, "again", None),
        (turn("killed", "withdrawn"), 1, "again", None),
        (turn("killed"), MOST_TRIES, "done", None),
        (turn("cancelled", "cancelled"), 1, "done", None),
        (turn("timeout"), 1, "done", None),
        (turn("crashed"), 1, "done", None),
        (turn("auth"), 1, "done", None),
        (turn("rate_limited", until=NOW + 7), 1, "later", NOW + 7),
        (turn("rate_limited", until=NOW + 7), 2, "later", NOW + 10_000),
        (turn("rate_limited", until=NOW + LONGEST_MS + 7), 99, "later", NOW + LONGEST_MS + 7),
        (turn("rate_limited", until=NOW - 7), 1, "later", NOW + 5_000),
        (turn("rate_limited"), MOST_TRIES + 9, "later", NOW + LONGEST_MS),
        (turn("network"), 2, "later", NOW + 10_000),
        (turn("network"), MOST_TRIES, "done", None),
        (turn("model_error"), 1, "later", NOW + 5_000),
        (turn("model_error", retryable=False), 1, "done", None),
        (turn("session_busy", "withdrawn"), 1, "later", NOW + 5_000),
        (turn("session_busy", "parked"), 1, "follow", None),
        (turn("unsettled"), 1, "follow", None),
    ],
)
def test_what_follows(ended: Turn, tries: int, what: str, wake_ms: int | None) -> None:
    next_ = judge(ended, tries, NOW)
    assert (next_.what, next_.wake_ms) == (what, wake_ms)


@pytest.mark.parametrize(
    ("ended", "before", "tries"),
    [
        (turn("killed"), [], 1),
        (turn("killed"), ["killed", "network", "session_busy"], 4),
        (turn("killed"), ["budget"] * 6 + ["rate_limited"] * 6 + ["cancelled"] * 6, 1),
        (turn("network"), ["killed", "budget"], 2),
        (turn("rate_limited"), ["killed"] * 3 + ["rate_limited"], 2),
        (turn(), ["killed"], 1),
    ],
)
def test_only_what_is_alike_is_counted(ended: Turn, before: list[Kind], tries: int) -> None:
    assert tries_like(ended, before) == tries


def test_the_pause_grows_up_to_a_limit() -> None:
    pauses = [pause_ms(tries) for tries in range(1, 40)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (5_000, 10_000, LONGEST_MS)
