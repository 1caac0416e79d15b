from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import msgspec
import pytest

from segue.core.errors import StoreAway
from segue.core.model import Host, Owner
from segue.store import lease_rows, leases
from segue.store.lease_rows import Busy, Judge, Taken, Verdict
from segue.store.leases import Acquiring, Lease, LeaseBusy, LeaseLock
from segue.store.records import Claim, LeaseRow, Settlement
from segue.store.store import Store
from segue.store.waiting_turn import WaitingTurn
from segue.system.processes import this_process
from tests.chaos.scenes import until
from tests.integration.store.talking import Talk
from tests.integration.store.where import Where
from tests.integration.store.workers import DEAD

A = Owner(host="a", pid=1, start_time="5", boot_id="x")
B = Owner(host="b", pid=2)
HOUR_MS = 3_600_000


def always(verdict: Verdict) -> Judge:
    return lambda row: verdict


def taken(store: Store, owner: Owner = A, verdict: Verdict = "alive", name: str = "c") -> Taken:
    got = store.take_lease(name, owner, always(verdict))
    assert isinstance(got, Taken)
    return got


def found(store: Store) -> LeaseRow:
    row = store.lease("c")
    assert row is not None
    return row


def aged(store: Store, by_ms: int) -> None:
    store._db.run("UPDATE leases SET renewed_ms = renewed_ms - :by", by=by_ms)


def test_a_free_lease_is_taken_and_given_back(store: Store) -> None:
    assert store.lease("c") is None
    first = taken(store)
    assert first.previous is None
    row = found(store)
    assert (row.claim, row.owner, row.group) == (first.claim, A, None)
    busy = store.take_lease("c", B, always("alive"))
    assert isinstance(busy, Busy)
    assert busy.holder.claim == first.claim
    assert isinstance(store.take_lease("another", B, always("alive")), Taken)
    assert store.release_lease(first.claim)
    assert store.lease("c") is None
    assert taken(store, B).claim.token != first.claim.token


def test_ages_are_told_by_the_databases_clock(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a client's clock says. (A file's clock is that of its machine.)"""
    claim = taken(store).claim
    before = found(store)
    assert 0 <= before.silent_ms < HOUR_MS
    if store._db.name == "postgres":
        ahead = time.time_ns() + 130 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda: ahead)
        monkeypatch.setattr(time, "time", lambda: ahead / 10**9)
    assert found(store).silent_ms < 100_000
    aged(store, HOUR_MS)
    assert found(store).silent_ms >= HOUR_MS
    assert store.renew_lease(claim)
    row = found(store)
    assert row.renewed_ms >= before.renewed_ms
    assert row.silent_ms < 100_000


def test_a_lease_is_renewed_by_its_owner_only(store: Store) -> None:
    claim = taken(store).claim
    aged(store, HOUR_MS)
    silent = found(store).renewed_ms
    for other in (
        Claim("c", "somebody's", claim.generation),
        Claim("c", claim.token, claim.generation - 1),
        Claim("d", claim.token, claim.generation),
    ):
        assert not store.renew_lease(other)
        assert not store.note_group(other, "/r")
        assert not store.release_lease(other)
    assert (found(store).renewed_ms, found(store).group) == (silent, None)
    assert store.renew_lease(claim)
    assert found(store).renewed_ms > silent


def test_the_dead_are_judged_by_the_caller(store: Store) -> None:
    taken(store)
    asked = []

    def judge(row: LeaseRow) -> Verdict:
        asked.append(row.owner)
        return "dead" if row.silent_ms > HOUR_MS / 2 else "alive"

    assert isinstance(store.take_lease("c", B, judge), Busy)
    aged(store, HOUR_MS)
    assert isinstance(store.take_lease("c", B, judge), Taken)
    assert asked == [A, A]


@pytest.mark.parametrize("verdict", ["dead", "orphan"])
def test_a_lease_is_taken_over_with_what_it_was(store: Store, verdict: Verdict) -> None:
    old = taken(store)
    assert store.note_group(old.claim, "/runs/1")
    held = found(store)
    new = taken(store, B, verdict)
    assert new.previous is not None
    assert (new.previous.claim, new.previous.group) == (held.claim, "/runs/1")
    row = found(store)
    assert (row.claim, row.owner) == (new.claim, B)
    assert row.group == "/runs/1", "who takes over may die before it has noted anything"
    assert not store.renew_lease(old.claim)
    assert not store.note_group(old.claim, None)
    assert not store.release_lease(old.claim)
    assert store.note_group(new.claim, None)
    assert (found(store).owner, found(store).group) == (B, None)


def test_generations_only_rise(store: Store) -> None:
    """Over take-overs, and also where the lease was given back in between."""
    seen = []
    for n in range(6):
        claim = taken(store, A if n % 2 else B, "dead").claim
        seen.append(claim.generation)
        if n in (1, 3):
            store.release_lease(claim)
            taken(store, A, "dead", name="another")
    assert seen == sorted(set(seen))


def test_whoever_was_overtaken_settles_nothing(store: Store) -> None:
    """Though the one who took it over has not come to settle the turn yet."""
    talk = Talk(store)
    _, row = talk.receive("hello")
    store.place(row.id)
    mine = taken(store).claim
    theirs = taken(store, B, "dead").claim
    late = Settlement(turn=msgspec.structs.replace(row, state="failed", ended_ms=5), lease=mine)
    assert not store.settle(late)
    left = store.turn(row.id)
    assert left is not None
    assert (left.state, left.ended_ms) == ("running", None)
    assert store.settle(msgspec.structs.replace(late, lease=theirs))
    left = store.turn(row.id)
    assert left is not None
    assert left.state == "failed"


def test_whoever_was_overtaken_begins_nothing(store: Store) -> None:
    talk = Talk(store)
    _, row = talk.receive("hello")
    _, waits = talk.receive("me too")
    mine = taken(store).claim
    theirs = taken(store, B, "dead").claim
    with store.budgets.alone_to_begin(mine) as ours:
        assert not ours
    assert [turn.state for turn in store.turns(talk.id)] == ["queued", "queued"]
    assert store.messages(talk.id) == []
    with store.budgets.alone_to_begin(theirs) as ours:
        assert ours
        store.place(row.id, [waits.id])
    assert sorted(turn.state for turn in store.turns(talk.id)) == ["running", "withdrawn"]


def test_an_owner_that_renews_at_the_last_moment_keeps_it(store: Store, where: Where) -> None:
    old = taken(store)
    aged(store, HOUR_MS)

    def judge(row: LeaseRow) -> Verdict:
        if row.silent_ms < HOUR_MS:
            return "alive"
        with where.open() as owners:
            assert owners.renew_lease(old.claim)
        return "dead"

    got = store.take_lease("c", B, judge)
    assert isinstance(got, Busy)
    assert got.holder.owner == A


def test_of_eight_processes_exactly_one_inherits_from_the_dead(store: Store, where: Where) -> None:
    rounds = 150
    for n in range(rounds):
        assert isinstance(store.take_lease(f"dead-{n}", DEAD, always("alive")), Taken)
    start = time.time() + 4
    printed = where.run_all(*[("inherit", start, rounds)] * 8)
    got = Counter(int(line) for lines in printed for line in lines)
    assert got == dict.fromkeys(range(rounds), 1)


def test_eight_processes_never_hold_it_together(store: Store, where: Where, tmp_path: Path) -> None:
    """The store is open here too, so that it is made before they start."""
    printed = where.run_all(*[("guard", tmp_path / "door", 12)] * 8)
    assert [len(lines) for lines in printed] == [12] * 8
    assert store.lease("door") is None


def test_all_leases_of_a_process_are_renewed_by_one_thread(where: Where, tmp_path: Path) -> None:
    """And their holders are called, also while they wait."""
    beats, owner = Counter[str](), this_process(Host("here"))

    def hold(store: Store, name: str, who: str, until: float) -> AbstractAsyncContextManager[Lease]:
        return leases.hold(
            store,
            name,
            owner=owner,
            locks=tmp_path,
            until=until,
            on_wait=lambda _: None,
            given_up=lambda: beats["waiting"] > 0,
            on_loss=lambda: None,
            on_beat=lambda: beats.update([who]),
            waiting=WaitingTurn(store, "run", owner),
        )

    async def main(store: Store) -> int:
        async with hold(store, "a", "a", 0), hold(store, "b", "b", 0):
            with pytest.raises(LeaseBusy):
                async with hold(store, "a", "waiting", time.monotonic() + 60):
                    pass
            return sum(thread.name == "lease-renewer" for thread in threading.enumerate())

    with where.open() as store:
        assert anyio.run(main, store) == 1
        assert store.lease(lease_rows.waiting("run")) is None
    assert set(beats) == {"a", "b", "waiting"}


def test_what_is_given_back_while_the_store_is_away_is_free_once_it_is_back(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else could know that it is not held any more: its owner lives."""
    owner, release, tries = this_process(Host("here")), store.release_lease, Counter[str]()

    def away_at_first(claim: Claim) -> bool:
        tries[claim.name] += 1
        if tries[claim.name] < 3:
            raise StoreAway("the store is away")
        return release(claim)

    monkeypatch.setattr(store, "release_lease", away_at_first)
    lock, waiting = Acquiring(store, "c", owner, tmp_path, True).take(), WaitingTurn(store, "run", owner)
    waiting.begin()
    assert isinstance(lock, LeaseLock)
    lock.let_go()
    waiting.end()
    assert store.lease("c") is not None
    until(lambda: store.lease("c") is None, "the lease is free")
    until(lambda: store.lease(lease_rows.waiting("run")) is None, "nobody seems to wait")
    assert set(tries.values()) == {3}
