"""A session page by page, the newest first, without reading more of its file than the page needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from segue.agents.reader import Reader, Record, Stored, place
from segue.core.errors import Misuse
from segue.core.transcript import Entry

SIZE = 100
_PLACE = re.compile(r"(-?\d{1,18})\.(\d{1,9})")


class Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some events in the order in which they happened. ``first_id`` is the cursor for the page before."""

    first_id: str | None
    has_more: bool
    size: int
    events: tuple[Entry, ...]


def everything(_: Entry) -> bool:
    return True


def page(
    reader: Reader,
    stored: Stored,
    *,
    anchor_to_latest: bool = True,
    before_id: str | None = None,
    size: int = SIZE,
    wanted: Callable[[Entry], bool] = everything,
) -> Page:
    """The newest page, or the one before an event. A record is never torn apart by the end of a page."""
    if before_id is None and not anchor_to_latest:
        raise Misuse("a page is the latest, or the one before an event: name the event")
    events: list[Entry] = []
    first, more = None, False
    for record in _before(reader, stored, before_id):
        entries = [entry for entry in record.entries if wanted(entry)]
        if not entries:
            continue
        if events and len(events) + len(entries) > size:
            more = True
            break
        events.extend(reversed(entries))
        first = entries[0].id
    return Page(first_id=first, has_more=more, size=len(events), events=tuple(reversed(events)))


def around(reader: Reader, stored: Stored, event: str, size: int = SIZE) -> Page:
    """The page that ends with an event."""
    record = _record(reader, stored, event)
    before = page(reader, stored, before_id=place(record.start), size=max(size - len(record.entries), 1))
    events = (*before.events, *record.entries)
    return Page(
        first_id=before.first_id or record.entries[0].id,
        has_more=before.has_more,
        size=len(events),
        events=events,
    )


def _record(reader: Reader, stored: Stored, event: str) -> Record:
    """The one that holds an event: at its place, or looked for from the end."""
    placed = _PLACE.fullmatch(event)
    there = stored.appends and placed is not None and 0 <= int(placed[1]) < stored.size
    records = reader.read(stored, int(placed[1])) if there and placed is not None else reader.back(stored)
    for record in records:
        if any(is_called(entry, event) for entry in record.entries):
            return record
        if there:
            break
    raise _nowhere(event)


def is_called(entry: Entry, name: str) -> bool:
    """An event is called by its place, or by the CLI's own id."""
    return name in (entry.id, entry.native)


def _before(reader: Reader, stored: Stored, event: str | None) -> Iterator[Record]:
    if event is None:
        yield from reader.back(stored)
        return
    placed = _PLACE.fullmatch(event)
    if placed is not None and int(placed[2]) == 0 and not (stored.appends and int(placed[1]) > stored.size):
        yield from reader.back(stored, int(placed[1]))
        return
    records = reader.back(stored)
    for record in records:
        at = next((n for n, entry in enumerate(record.entries) if is_called(entry, event)), None)
        if at is not None:
            yield Record(record.start, record.next, record.entries[:at])
            yield from records
            return
    raise _nowhere(event)


def _nowhere(event: str) -> Misuse:
    return Misuse(f"there is no event {event[:80]} in this session; the CLI may have rewritten it")
