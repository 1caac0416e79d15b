"""A line in the store: places, parking and waking by compare and swap, and what a failure holds up."""

from __future__ import annotations

import msgspec
import pytest

from segue.core.turn import State
from segue.core.usage import Usage
from segue.store.records import (
    QUEUED,
    AttemptRow,
    NotWaiting,
    Parking,
    QueuedRow,
    Settlement,
    TurnRow,
)
from segue.store.store import Store
from segue.system.clock import new_id
from segue.turns.parked_run import wakes_of
from tests.integration.store.talking import Talk, message, told, turn_row


class Line:
    """The line of one conversation."""

    def __init__(self, store: Store, key: str) -> None:
        self.store, self.talk = store, Talk(store, key)

    def add(self, at_ms: int = 1000, *, waited_for: bool = False) -> TurnRow:
        """Another run at its end; ``waited_for``: in the foreground."""
        said = message()
        row = turn_row(self.talk.id, said, at_ms, via="run" if waited_for else QUEUED)
        if waited_for:
            self.store.receive(self.talk.made, said, "hi", row)
        else:
            self.store.enqueue(self.talk.made, said, "hi", row, "{}")
        return row

    def end(self, row: TurnRow, state: State, *, hold: bool = False) -> None:
        ended = msgspec.structs.replace(row, state=state, told=told(row, "", state=state), ended_ms=5)
        assert self.store.settle(Settlement(turn=ended, hold=hold))

    def park(self, row: TurnRow, until_ms: int, *, leaves: bool = True) -> QueuedRow:
        self.store.place(row.id)
        parked = msgspec.structs.replace(row, state="parked", told=told(row, "", state="parked"), ended_ms=5)
        parking = Parking(until_ms=until_ms, request="{}", leaves=leaves)
        assert self.store.settle(Settlement(turn=parked, parking=parking))
        return self.now(row)

    def now(self, row: TurnRow) -> QueuedRow:
        found = self.store.queued(row.id)
        assert found is not None
        return found


def test_a_parked_run_wakes_once(store: Store) -> None:
    line = Line(store, "k")
    row = line.add(waited_for=True)
    parked = line.park(row, 5000)
    assert (parked.state, parked.not_before_ms, parked.request) == ("parked", 5000, "{}")
    stored = store.turn(row.id)
    assert stored is not None
    assert (stored.via, stored.ended_ms, stored.told is not None) == (QUEUED, None, True)
    assert store.messages(line.talk.id) == []
    assert not store.wake(msgspec.structs.replace(parked, not_before_ms=4000))
    assert store.wake(parked, "run")
    assert not store.wake(parked)
    woken = line.now(row)
    assert (woken.state, woken.not_before_ms, woken.request) == ("queued", None, None)
    store.place(row.id)
    assert [each.id for each in store.messages(line.talk.id)] == [row.message]


def test_a_message_stays_if_something_was_done_for_it(store: Store) -> None:
    line = Line(store, "k")
    row = line.add()
    parked = line.park(row, 5000, leaves=False)
    assert [each.id for each in store.messages(line.talk.id)] == [row.message]
    assert store.wake(parked)
    assert line.now(row).request == "{}"


def test_others_at_the_same_limit_wait_as_long(store: Store) -> None:
    lines = [Line(store, f"k{n}") for n in range(3)]
    rows = [line.add(1000 + n) for n, line in enumerate(lines)]
    for line, row, until_ms in zip(lines, rows, (5000, 6000, 5500), strict=True):
        line.park(row, until_ms)
    assert [line.now(row).not_before_ms for line, row in zip(lines, rows, strict=True)] == [6000, 6000, 5500]
    assert [each.id for each in store.limited(rows[1].id)] == [rows[0].id, rows[2].id]


def test_a_failure_holds_up_what_waits(store: Store) -> None:
    line = Line(store, "k")
    failed, *others = (line.add() for _ in range(3))
    waited_for = line.add(waited_for=True)
    store.place(failed.id)
    line.end(failed, "failed", hold=True)
    assert [each.held_by for each in store.line(line.talk.id)] == [failed.id] * 2
    assert store.ahead(waited_for.id) == []
    with pytest.raises(NotWaiting):
        store.place(others[0].id)
    parked = line.park(line.add(waited_for=True), 5000)
    store.place(waited_for.id)
    line.end(waited_for, "failed", hold=True)
    assert line.now(others[0]).held_by == waited_for.id
    assert store.wake(parked, QUEUED)
    store.place(parked.id)  # a process waits for it: it goes on whatever holds up the others
    waited_for = line.add(waited_for=True)
    assert store.let_go(line.talk.id)
    assert not store.let_go(line.talk.id)
    assert [each.id for each in store.ahead(waited_for.id)] == [each.id for each in others]
    store.place(others[0].id)
    line.end(others[0], "cancelled", hold=True)
    again = msgspec.structs.replace(line.add(), retry_of=others[0].id)
    line.end(again, "done")
    assert [each.held_by for each in store.line(line.talk.id)] == [None]


def test_runs_that_change_their_order_exchange_their_places(store: Store) -> None:
    line = Line(store, "k")
    first, waited_for, second, third = line.add(), line.add(waited_for=True), line.add(), line.add()
    store.reorder([third.id, first.id, second.id])
    assert [each.id for each in store.line(line.talk.id)] == [third.id, first.id, second.id]
    assert [each.id for each in store.ahead(waited_for.id)] == [third.id]
    assert [each.id for each in store.ahead(first.id)] == [third.id, waited_for.id]


def test_what_is_parked_by_a_limit_waits_for_the_user_who_wrote_since(store: Store) -> None:
    line = Line(store, "k")
    limited, kept, later = line.add(), line.add(), line.add()
    line.park(limited, 5000)
    line.park(kept, 6000, leaves=False)  # something was done for it
    assert store.ask_parked(line.talk.id, "q", "{}")
    assert [line.now(each).not_before_ms for each in (limited, kept)] == [None, 6000]
    assert [(each.run, each.state) for each in store.questions(limited.id)] == [(limited.id, "open")]
    assert not store.ask_parked(line.talk.id, "again", "{}")
    assert line.now(later).state == "queued"
    assert store.go_on_parked(limited.id, "q", 7000)
    assert not store.go_on_parked(limited.id, "q", 7000)
    assert (line.now(limited).state, line.now(limited).not_before_ms) == ("parked", 7000)
    assert store.ask_parked(line.talk.id, "next", "{}")
    assert store.go_on_parked(limited.id, "next", None)
    assert (line.now(limited).state, line.now(limited).not_before_ms) == ("queued", None)
    assert store.asked(line.talk.id) == []


def test_how_often_a_run_has_waited_is_known_from_its_attempts(store: Store) -> None:
    line = Line(store, "k")
    row = line.add()
    for seq, outcome in enumerate(("session_rejected", "rate_limited", "rate_limited"), 1):
        name = new_id()
        made = AttemptRow(id=name, turn=row.id, seq=seq, mode="fresh", run_dir="/r", started_ms=seq)
        store.attempting(made)
        store.attempted(name, outcome, None, Usage(), None, 0, seq)
        assert wakes_of(store, row, name) == max(0, seq - 2)
    assert wakes_of(store, row, "another") == 2
