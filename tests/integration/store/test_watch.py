"""The watch of a store, on both databases: changes of this process and of others are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from segue.store import postgres_watch
from segue.store.store import Store
from tests.integration.store.talking import Talk
from tests.integration.store.where import Where
from tests.postgres import Server, at, own_postgres

__all__ = ["own_postgres"]

WAIT_S = 30.0
NEVER_S = 3600.0


class Heard:
    """Counts the calls."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def after(self, count: int) -> bool:
        """Whether it was called more often than that, now or soon."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count > count, WAIT_S)

    def settle(self) -> int:
        """The count, once nothing more has come for a while."""
        known = -1
        while known != self.count:
            known = self.count
            time.sleep(0.3)
        return known


@contextmanager
def watched(store: Store) -> Iterator[Heard]:
    heard = Heard()
    watch = store.watch(heard)
    watch.start()
    try:
        assert heard.after(0)
        yield heard
    finally:
        watch.close()


@pytest.fixture(autouse=True)
def no_safety(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found out by asking once in a while."""
    monkeypatch.setattr(postgres_watch, "SAFETY_S", NEVER_S)


def test_a_change_of_another_process_is_told(where: Where, store: Store) -> None:
    with watched(store) as heard:
        before = heard.settle()
        _, seen = store.feed_bounds()
        where.run_all(("append", "a", 1))
        assert heard.after(before)
        assert store.feed_after(seen, 100)


def test_a_change_of_this_process_is_told_at_once(store: Store) -> None:
    with watched(store) as heard:
        before = heard.settle()
        Talk(store, "k").receive("hello")
        assert heard.count > before
        assert store.feed_after(0, 100)


def test_reading_is_no_change(where: Where, store: Store) -> None:
    Talk(store, "k").say("hello", "hi")
    with watched(store) as heard, where.open() as other:
        before = heard.settle()
        for each in (store, other):
            each.conversations()
            each.feed_after(0, 100)
        assert heard.settle() == before


def test_a_closed_watch_tells_nothing_more(where: Where, store: Store) -> None:
    with watched(store) as heard:
        pass
    before = heard.settle()
    Talk(store, "k").say("hello", "hi")
    with where.open() as other:
        Talk(other, "l").say("hello", "hi")
    assert heard.settle() == before


def test_after_the_server_was_away_changes_are_told_again(own_postgres: Server, tmp_path: Path) -> None:
    where = Where(at(own_postgres.url, "postgres"), tmp_path / "unused")
    with where.open() as store, watched(store) as heard:
        Talk(store, "k").say("hello", "hi")
        _, seen = store.feed_bounds()
        own_postgres.stop()
        before = heard.settle()
        own_postgres.start()
        assert heard.after(before), "the watch connects again and says that there may be changes"
        wait_until(lambda: listens(where))
        before = heard.settle()
        where.run_all(("append", "a", 1))
        assert heard.after(before)
        assert store.feed_after(seen, 100)[0].seq == seen + 1


def listens(where: Where) -> bool:
    """Whether a connection waits for notifications."""
    with psycopg.connect(where.url or "") as asking:
        found = asking.execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").fetchone()
        return found is not None


def wait_until(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.05)
