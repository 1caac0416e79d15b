"""How long a flow has really worked."""

from __future__ import annotations

import pytest

from segue.flows.turn_step import Span, worked_ms


@pytest.mark.parametrize(
    ("spans", "worked"),
    [
        ([], 0),
        ([(100, 110)], 10),
        ([(120, 130), (100, 110)], 20),
        ([(100, 130), (110, 120)], 30),
        ([(100, 120), (110, 130)], 30),
        ([(0, 110)], 10),
        ([(190, 300)], 10),
        ([(0, 50), (250, 300)], 0),
        ([(0, 300)], 100),
        ([(150, 140)], 0),
    ],
)
def test_only_what_lies_between_counts_and_once(spans: list[Span], worked: int) -> None:
    assert worked_ms(spans, 100, 200) == worked
