"""The feed: what changed in the store, numbered in the order of the commits.

Triggers of the database write it. A subscriber that knows the last number it has seen can read on from there,
after a restart and in another process, too.
"""

from __future__ import annotations

from segue.store.database import Queries, Section
from segue.store.records import FeedRow

_SQL = Queries("feed")


class Feed(Section):
    """Reads the feed."""

    def feed_name(self) -> str:
        """The name of this store's feed: numbers of another store's mean nothing here."""
        row = self._db.one(_SQL.named)
        return f"{int(row[0]):x}" if row is not None else ""

    def feed_after(self, seq: int, limit: int, run: str | None = None) -> list[FeedRow]:
        """What changed after that number, oldest first. ``run``: only what belongs to that run."""
        if run is None:
            rows = self._db.all(_SQL.after, seq=seq, count=limit)
        else:
            rows = self._db.all(_SQL.of_run, seq=seq, run=run, count=limit)
        return [FeedRow(*row) for row in rows]

    def events_before_feed(self, run: str) -> list[tuple[int, int, str]]:
        """The events of a run that are still stored, although the feed has forgotten them: number, time,
        event."""
        return [(n, ms, event) for n, ms, event in self._db.all(_SQL.before_feed, run=run)]

    def feed_bounds(self) -> tuple[int, int]:
        """The oldest number that can still be read (if none can, the next one), and the newest."""
        row = self._db.one(_SQL.bounds)
        oldest, newest = row if row is not None else (None, 0)
        return (newest + 1 if oldest is None else oldest), newest

    def last_change(self, run: str) -> int:
        """The number of the newest change of a run's state."""
        row = self._db.one(_SQL.last_of_run, run=run)
        return 0 if row is None or row[0] is None else int(row[0])

    def forget_feed(self, before_ms: int) -> int:
        """Drop what is older. Returns how much."""
        return self._db.run(_SQL.forget, before_ms=before_ms)
