"""Waiting for the last answer."""

from __future__ import annotations

import pytest

from segue.cli import last
from segue.core.errors import StoreAway


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last, "POLL_S", 0.0)


def test_who_waits_for_a_turn_waits_for_the_store_too() -> None:
    answers = iter([StoreAway("away"), StoreAway("away"), True])

    def under_way() -> bool:
        answer = next(answers)
        if isinstance(answer, StoreAway):
            raise answer
        return answer

    assert last._waits(under_way)


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last, "AWAY_S", 0.0)

    def under_way() -> bool:
        raise StoreAway("away")

    with pytest.raises(StoreAway):
        last._waits(under_way)
