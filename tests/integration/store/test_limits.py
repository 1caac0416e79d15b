"""Usage limits in the store: the latest per login and window, and what paid last."""

from __future__ import annotations

import msgspec

from segue.core.usage import Limit, Pays
from segue.store.records import Settlement
from segue.store.store import Store
from tests.integration.store.talking import Talk, told

ANN, BOB = ("claude", "work", "ann"), ("claude", "work", "bob")
FIVE = Limit("5h", 0.5, 9_000, "stream", 100)
WEEK = Limit("7d", 0.125, 90_000, "session", 100)


def settle(talk: Talk, *limits: Limit, login: str = "ann", pays: Pays = "unknown") -> None:
    _, row = talk.receive("hello")
    talk.store.place(row.id)
    ran = msgspec.structs.replace(told(row, "hi"), pays=pays)
    final = msgspec.structs.replace(row, conversation=talk.id, state="done", told=ran, ended_ms=2000)
    assert talk.store.settle(Settlement(turn=final, limits=(login, limits)))


def test_each_login_has_its_own(store: Store, talk: Talk) -> None:
    settle(talk, WEEK, FIVE)
    assert store.limits(*ANN) == [FIVE, WEEK]
    assert store.limits(*BOB) == []
    assert store.limits("codex", "work", "ann") == []


def test_the_latest_of_a_window_counts(store: Store, talk: Talk) -> None:
    settle(talk, FIVE)
    later = Limit("5h", 0.75, 9_000, "failure", 200)
    settle(talk, later)
    settle(talk, FIVE)
    assert store.limits(*ANN) == [later]


def test_a_report_without_a_share_does_not_replace_one_of_the_same_period(store: Store, talk: Talk) -> None:
    settle(talk, FIVE)
    settle(talk, Limit("5h", None, 9_000, "stream", 200))
    assert store.limits(*ANN) == [FIVE]
    renewed = Limit("5h", None, 18_000, "stream", 300)
    settle(talk, renewed)
    assert store.limits(*ANN) == [renewed]


def test_what_paid_last(store: Store, talk: Talk) -> None:
    assert store.payer(*ANN) == "unknown"
    settle(talk, pays="subscription")
    settle(talk, pays="unknown")
    assert (store.payer(*ANN), store.payer(*BOB)) == ("subscription", "unknown")
    settle(talk, pays="api_key")
    assert store.payer(*ANN) == "api_key"


def test_a_turn_without_a_login_stores_none(store: Store, talk: Talk) -> None:
    settle(talk, FIVE, login="", pays="api_key")
    assert (store.limits("claude", "work", ""), store.payer("claude", "work", "")) == ([], "unknown")


def test_a_turn_of_an_earlier_version_does_not_know_its_limits(store: Store, talk: Talk) -> None:
    settle(talk)
    (run,) = (each.id for each in store.turns_of(talk.id, "claude", 10))
    old = "REPLACE(told, '\"limits\":null', '\"limits\":[]')"
    store._db.run(f"UPDATE turns SET told = {old}")
    assert store._db.all("SELECT id FROM turns WHERE told LIKE '%\"limits\":[]%'"), "as it was written then"
    found = store.turn(run)
    assert found is not None
    assert found.told is not None
    assert found.told.limits is None
