"""Waiting for the last answer."""

from __future__ import annotations

import pytest

from segue.app import conversations
from segue.core.errors import StoreAway


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "POLL_S", 0.0)


def test_who_waits_for_a_turn_waits_for_the_store_too() -> None:
    away, busy = [StoreAway("away"), StoreAway("away")], [True, False]

    def under_way() -> bool:
        if away:
            raise away.pop()
        return busy.pop(0)

    conversations.wait_until_idle(under_way)
    assert not away
    assert not busy


def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "AWAY_S", 0.0)

    def under_way() -> bool:
        raise StoreAway("away")

    with pytest.raises(StoreAway):
        conversations.wait_until_idle(under_way)
