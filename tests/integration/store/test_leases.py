from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from segue.store import leases
from segue.store.leases import Busy, Judge, Taken, Verdict
from segue.store.records import LeaseRow, Owner
from segue.store.store import Store
from tests.integration.store.where import Where
from tests.integration.store.workers import DEAD

A = Owner(host="a", pid=1, start_time="5", boot_id="x")
B = Owner(host="b", pid=2)


def always(verdict: Verdict) -> Judge:
    return lambda row, now_ms: verdict


def taken(store: Store, owner: Owner = A, now_ms: int = 100, verdict: Verdict = "alive") -> Taken:
    got = leases.take(store, "c", owner, now_ms, always(verdict))
    assert isinstance(got, Taken)
    return got


def test_a_free_lease_is_taken_and_given_back(store: Store) -> None:
    assert leases.find(store, "c") is None
    first = taken(store)
    assert first.previous is None
    row = LeaseRow(name="c", token=first.token, owner=A, taken_ms=100, renewed_ms=100)
    assert leases.find(store, "c") == row
    assert leases.take(store, "c", B, 200, always("alive")) == Busy(row)
    assert isinstance(leases.take(store, "another", B, 200, always("alive")), Taken)
    assert leases.release(store, "c", first.token)
    assert leases.find(store, "c") is None
    second = taken(store, B, 300)
    assert second.token != first.token


def test_a_lease_is_renewed_by_its_owner_only(store: Store) -> None:
    token = taken(store).token
    assert leases.renew(store, "c", token, 150)
    assert not leases.renew(store, "c", "somebody's", 160)
    row = leases.find(store, "c")
    assert row is not None
    assert (row.taken_ms, row.renewed_ms) == (100, 150)


def test_the_dead_are_judged_by_the_caller(store: Store) -> None:
    taken(store)
    asked = []

    def judge(row: LeaseRow, now_ms: int) -> Verdict:
        asked.append((row.owner, now_ms - row.renewed_ms))
        return "dead" if now_ms - row.renewed_ms > leases.DEAD_S * 1000 else "alive"

    assert isinstance(leases.take(store, "c", B, 20_100, judge), Busy)
    assert isinstance(leases.take(store, "c", B, 20_101, judge), Taken)
    assert asked == [(A, 20_000), (A, 20_001)]


@pytest.mark.parametrize("verdict", ["dead", "orphan"])
def test_a_lease_is_taken_over_with_what_it_was(store: Store, verdict: Verdict) -> None:
    old = taken(store)
    assert leases.note_group(store, "c", old.token, '{"pgid": 7}')
    held = leases.find(store, "c")
    new = taken(store, B, 200, verdict)
    assert new.previous == held
    row = leases.find(store, "c")
    assert row is not None
    assert (row.token, row.owner, row.taken_ms) == (new.token, B, 200)
    assert row.group == '{"pgid": 7}', "who takes over may die before it has noted anything"
    assert not leases.renew(store, "c", old.token, 300)
    assert not leases.note_group(store, "c", old.token, None)
    assert not leases.release(store, "c", old.token)
    assert leases.note_group(store, "c", new.token, None)
    row = leases.find(store, "c")
    assert row is not None
    assert (row.owner, row.group) == (B, None)


def test_an_owner_that_renews_at_the_last_moment_keeps_it(store: Store, where: Where) -> None:
    old = taken(store)

    def judge(row: LeaseRow, now_ms: int) -> Verdict:
        if row.renewed_ms > 100:
            return "alive"
        with where.open() as owners:
            assert leases.renew(owners, "c", old.token, 50_000)
        return "dead"

    got = leases.take(store, "c", B, 50_000, judge)
    assert isinstance(got, Busy)
    assert got.holder.owner == A


def test_of_eight_processes_exactly_one_inherits_from_the_dead(store: Store, where: Where) -> None:
    rounds = 150
    for n in range(rounds):
        assert isinstance(leases.take(store, f"dead-{n}", DEAD, 1, always("alive")), Taken)
    start = time.time() + 4
    printed = where.run_all(*[("inherit", start, rounds)] * 8)
    got = Counter(int(line) for lines in printed for line in lines)
    assert got == dict.fromkeys(range(rounds), 1)


def test_eight_processes_never_hold_it_together(store: Store, where: Where, tmp_path: Path) -> None:
    """The store is open here too, so that it is made before they start."""
    printed = where.run_all(*[("guard", tmp_path / "door", 12)] * 8)
    assert [len(lines) for lines in printed] == [12] * 8
    assert leases.find(store, "door") is None
