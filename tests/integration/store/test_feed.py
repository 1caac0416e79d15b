"""The feed of changes, on both databases: every change has its number, in order, with its event."""

from __future__ import annotations

from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, Talk


def test_changes_are_numbered_in_order_and_events_come_with_them(store: Store) -> None:
    talk = Talk(store, "k")
    turn = talk.say("hello", "hi").turn.id
    store.record(turn, [(1, 5, '{"type":"session","id":"s"}'), (2, 6, '{"type":"end","ok":true}')])
    rows = store.feed_after(0, 1000)
    assert [row.seq for row in rows] == sorted({row.seq for row in rows})
    assert {"conversation", "message", "run", "event"} <= {row.kind for row in rows}
    events = [row for row in rows if row.kind == "event"]
    assert [(row.run, row.item, row.event) for row in events] == [
        (turn, "1", '{"type":"session","id":"s"}'),
        (turn, "2", '{"type":"end","ok":true}'),
    ]
    oldest, newest = store.feed_bounds()
    assert (oldest, newest) == (rows[0].seq, rows[-1].seq)
    assert store.feed_after(newest, 10) == []
    assert [row.seq for row in store.feed_after(0, 1000, turn)] == [r.seq for r in rows if r.run == turn]
    assert store.last_change(turn) == max(row.seq for row in rows if row.run == turn and row.kind == "run")


def test_what_is_recorded_twice_is_told_once(store: Store) -> None:
    turn = Talk(store, "k").say("hello", "hi").turn.id
    for _ in range(2):
        store.record(turn, [(1, 5, '{"type":"end","ok":true}')])
    assert sum(row.kind == "event" for row in store.feed_after(0, 1000)) == 1


def test_a_removed_conversation_leaves_its_key(store: Store) -> None:
    talk = Talk(store, "k")
    talk.say("hello", "hi", CLAUDE)
    _, before = store.feed_bounds()
    store.remove(talk.id)
    assert [(row.kind, row.item) for row in store.feed_after(before, 10)] == [("removed", "k")]


def test_the_feed_has_a_name_and_forgets(store: Store) -> None:
    Talk(store, "k").say("hello", "hi")
    assert store.feed_name() == store.feed_name() != ""
    _, newest = store.feed_bounds()
    assert store.forget_feed(2**50) > 0
    assert store.feed_bounds() == (newest + 1, newest)
