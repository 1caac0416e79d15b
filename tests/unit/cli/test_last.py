"""Waiting for the last answer."""

from __future__ import annotations

import pytest

from segue.cli import last
from segue.core.errors import StoreAway


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last, "POLL_S", 0.0)


def test_who_waits_for_a_turn_waits_for_the_store_too() -> None:
    away = [StoreAway("away"), StoreAway("away")]

    def under_way() -> bool:
        if away:
            raise away.pop()
        return True

    assert last._waits(under_way)
    assert not away


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last, "AWAY_S", 0.0)

    def under_way() -> bool:
        raise StoreAway("away")

    with pytest.raises(StoreAway):
        last._waits(under_way)
