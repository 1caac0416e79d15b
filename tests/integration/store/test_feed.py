"""The feed of changes, on both databases: every change has its number, in order, with its event."""

from __future__ import annotations

from pathlib import Path

from segue.store.store import Store
from tests.integration.store.talking import CLAUDE, Talk
from tests.integration.store.where import Where


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


def test_events_that_the_feed_has_forgotten_are_still_read(store: Store) -> None:
    talk = Talk(store, "k")
    turn = talk.say("hello", "hi").turn.id
    old, new = (1, 5, '{"type":"session","id":"s"}'), (2, 6, '{"type":"end","ok":true}')
    store.record(turn, [old])
    assert store.events_before_feed(turn) == []
    store.forget_feed(2**50)
    store.record(turn, [new])
    assert store.events_before_feed(turn) == [old]


def test_runs_are_counted_by_their_states(store: Store) -> None:
    talk = Talk(store, "k")
    talk.say("hello", "hi")
    assert store.count_unfinished() == {}
    for text in ("one", "two"):
        talk.receive(text)
    assert store.count_unfinished() == {"queued": 2}


def test_writers_do_not_wait_for_each_other_and_numbers_come_at_the_commit(
    postgres_url: str, tmp_path: Path
) -> None:
    where = Where(postgres_url, tmp_path)
    with where.open() as one, where.open() as other:
        slow, quick = Talk(one, "slow"), Talk(other, "quick")
        slow.say("hello", "hi")
        _, before = one.feed_bounds()
        with one._db.writing():
            turn = slow.say("again", "hi").turn.id
            quick.say("hello", "hi")
            seen = other.feed_after(before, 1000)
            assert {row.conversation for row in seen} == {quick.id}
        late = other.feed_after(seen[-1].seq, 1000)
        assert late[0].seq == seen[-1].seq + 1
        assert {row.conversation for row in late} == {slow.id}
        assert turn in {row.run for row in late}


def test_a_reader_misses_nothing_while_many_write(where: Where) -> None:
    """Each number comes once, without a gap, although writers are in the middle of their transactions."""
    with where.open() as store:
        jobs = [where.start("append", name, 20) for name in "abc"] + [where.start("line", 20)]
        seen: list[int] = []
        while any(job.poll() is None for job in jobs):
            seen += [row.seq for row in store.feed_after(seen[-1] if seen else 0, 1000)]
        seen += [row.seq for row in store.feed_after(seen[-1], 1000)]
        for job in jobs:
            job.communicate()
        assert [job.returncode for job in jobs] == [0] * len(jobs)
        assert seen == list(range(1, store.feed_bounds()[1] + 1))
        shared = store.conversation("shared")
        assert shared is not None
        assert len(store.messages(shared.id)) == 120
