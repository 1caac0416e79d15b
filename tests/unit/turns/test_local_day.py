"""A day of a budget is a day of the local calendar."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from segue.turns.budget import local_day


@pytest.fixture(params=["Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3"])
def berlin(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "day", "began"),
    [
        ("2026-11-17T12:00", "2026-11-17", "2026-11-16T23:00"),
        ("2026-11-16T23:00", "2026-11-17", "2026-11-16T23:00"),
        ("2026-11-16T22:59:59.999", "2026-11-16", "2026-11-15T23:00"),
        pytest.param("2026-03-29T21:00", "2026-03-29", "2026-03-28T23:00", id="23 hours"),
        pytest.param("2026-10-25T22:30", "2026-10-25", "2026-10-24T22:00", id="25 hours"),
    ],
)
@pytest.mark.usefixtures("berlin")
def test_a_day_begins_at_midnight(now: str, day: str, began: str) -> None:
    assert local_day(ms(now)) == (day, ms(began))
