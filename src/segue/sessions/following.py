"""A session while it is being written: what is new in it, as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from segue.agents.reader import Reader, Stored
from segue.core.transcript import Entry

EVERY_S = 0.25


def follow(
    reader: Reader,
    stored: Stored,
    start: int,
    shown: Iterable[str],
    *,
    stop: Callable[[], bool],
    every_s: float = EVERY_S,
) -> Iterator[Entry]:
    """The entries behind a place that ``end`` gave, without those that were shown already.

    It ends when told to, or when the session is gone.
    """
    at, seen = start, set(shown)
    stored = msgspec.structs.replace(stored, changed_ns=0)  # what came since it was found is new
    while not stop():
        now = reader.find(stored.home, stored.id)
        if now is None:
            return
        if now.changed_ns != stored.changed_ns or now.size != stored.size:
            if now.size < at and now.appends:  # somebody wrote it anew
                at = 0
            for record in reader.read(now, at if now.appends else 0):
                at = record.next
                for entry in record.entries:
                    if entry.id not in seen:
                        seen.add(entry.id)
                        yield entry
            stored = now
        time.sleep(every_s)


def end(reader: Reader, stored: Stored) -> int:
    """Behind the last record that is whole."""
    if not stored.appends:
        return 0
    last = next(iter(reader.back(stored)), None)
    if last is None:
        return 0
    whole = any(record.start == last.start for record in reader.read(stored, last.start))
    return last.next if whole else last.start
