"""Reads a session: page by page from its end, as it grows, or as the messages of a conversation.

Only the part of the file that a page needs is read.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile

import msgspec

from segue.agents.base import Record, SessionArchive, StoredSession, entries_of, entry_id
from segue.core.errors import Misuse, NotFound
from segue.core.prompt_parts import user_words
from segue.core.transcript import Entry, is_message
from segue.sessions.agent_homes import AgentHome

EVERY_S = 0.25
SIZE = 100
MANY = 2_000
"""How many entries are read at the beginning of a large session that is not a file of records."""
_PLACE = re.compile(r"(-?\d{1,18})\.(\d{1,9})")


class Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some events in the order they happened. ``first_id`` is the cursor for the page before, ``last_id`` the
    one for the page after."""

    first_id: str | None
    has_more: bool
    """There are older events."""
    size: int
    events: tuple[Entry, ...]
    last_id: str | None
    """Not an event that is still being written: the page after has it again, complete."""
    has_newer: bool


def all_entries(_: Entry) -> bool:
    return True


def newest_page(
    reader: SessionArchive,
    stored: StoredSession,
    *,
    anchor_to_latest: bool = True,
    before_id: str | None = None,
    size: int = SIZE,
    wanted: Callable[[Entry], bool] = all_entries,
) -> Page:
    """The newest page, or the one before an event. A record is never split between pages."""
    if before_id is None and not anchor_to_latest:
        raise Misuse("name an event (before), or ask for the newest page")
    events: list[Entry] = []
    first, last, more = None, None, False
    for record in _before(reader, stored, before_id):
        entries = [entry for entry in record.entries if wanted(entry)]
        if not entries:
            continue
        if events and len(events) + len(entries) > size:
            more = True
            break
        events.extend(reversed(entries))
        first = entries[0].id
        if last is None and (before_id is not None or _is_whole(reader, stored, record)):
            last = entries[-1].id
    return Page(
        first_id=first,
        has_more=more,
        size=len(events),
        events=tuple(reversed(events)),
        last_id=last,
        has_newer=before_id is not None,
    )


def page_around(reader: SessionArchive, stored: StoredSession, event: str, size: int = SIZE) -> Page:
    """The page that ends with an event."""
    record = _record(reader, stored, event)
    before = newest_page(
        reader, stored, before_id=entry_id(record.start), size=max(size - len(record.entries), 1)
    )
    events, last = (*before.events, *record.entries), record.entries[-1].id
    return Page(
        first_id=before.first_id or record.entries[0].id,
        has_more=before.has_more,
        size=len(events),
        events=events,
        last_id=last,
        has_newer=bool(page_after(reader, stored, last, 1).events),
    )


def page_after(reader: SessionArchive, stored: StoredSession, event: str, size: int = SIZE) -> Page:
    """The events after one, without those that are still being written. If there are none, ``last_id`` is
    the event itself."""
    events: list[Entry] = []
    newer = False
    for record in _after(reader, stored, event, size):
        entries = [entry for entry in record.entries if not entry.again]
        if events and len(events) + len(entries) > size:
            newer = True
            break
        events.extend(entries)
    return Page(
        first_id=events[0].id if events else None,
        has_more=True,
        size=len(events),
        events=tuple(events),
        last_id=events[-1].id if events else event,
        has_newer=newer,
    )


def both_ends(reader: SessionArchive, stored: StoredSession, part: int) -> Iterator[Entry]:
    """The entries of about this many bytes at the beginning of a large session, and of as many at its end. Of
    one that is not a file of records, only the beginning."""
    if not stored.appends:
        yield from islice(entries_of(reader, stored), MANY)
        return
    head = list(takewhile(lambda record: record.start < part, reader.read(stored)))
    first = head[-1].next if head else 0
    tail = takewhile(lambda record: record.start >= max(first, stored.size - part), reader.back(stored))
    for record in (*head, *reversed(list(tail))):
        yield from record.entries


class SessionMessage(msgspec.Struct):
    """One message of a session. An answer in several pieces is one message."""

    sender: str
    text: str
    at_ms: int | None


def session_dialogue(entries: Iterable[Entry]) -> Iterator[SessionMessage]:
    """The messages of the user, and what the agent said between them."""
    answer: SessionMessage | None = None
    for entry in entries:
        if not is_message(entry):
            continue
        if entry.kind == "assistant" and answer is not None:
            answer.text += "\n\n" + entry.text
            continue
        if answer is not None:
            yield answer
            answer = None
        said = SessionMessage(entry.kind, entry.text, entry.at_ms)
        if entry.kind == "assistant":
            answer = said
        else:
            yield said
    if answer is not None:
        yield answer


def own_words(said: SessionMessage) -> str:
    """The text of a message; of a prompt that Segue composed, only the user's own part."""
    words = user_words(said.text) if said.sender == "user" else None
    return words if words is not None and words.strip() else said.text


def in_force(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without abandoned ones: if they form a chain, only those that lead to the last message.

    A summary starts a new chain; what came before it still counts, and so does what came before a break.
    """
    chain = {entry.native: entry for entry in entries if entry.native and not entry.side}
    if not any(entry.parent for entry in chain.values()):
        return list(entries)
    places = {entry.native: at for at, entry in reversed(list(enumerate(entries)))}
    kept: set[str] = set()
    end: int | None = len(entries)
    while end is not None:
        leaf = next((entry for entry in reversed(entries[:end]) if _speaks(entry)), None)
        end = _follow(leaf, chain, places, kept) if leaf is not None else None
    return [entry for entry in entries if not entry.native or entry.side or entry.native in kept]


def _speaks(entry: Entry) -> bool:
    return bool(entry.native) and not entry.side and entry.kind in ("user", "assistant", "call", "result")


def _follow(leaf: Entry, chain: dict[str, Entry], places: dict[str, int], kept: set[str]) -> int | None:
    """Add a message and everything it follows to ``kept``. Returns the place before which to continue, or
    None if there is nothing more."""
    at = leaf
    while True:
        if at.native in kept:
            return None
        kept.add(at.native)
        if at.parent is None:
            is_summary = at.kind == "boundary" or at.label == "compaction"
            return places[at.native] if is_summary else None
        if at.parent not in chain:
            return places[at.native]
        at = chain[at.parent]


def follow_session(
    place: AgentHome,
    stored: StoredSession,
    start: int,
    shown: Iterable[str],
    *,
    stop: Callable[[], bool],
    every_s: float = EVERY_S,
) -> Iterator[Entry]:
    """Yield the entries after a place that ``end_of`` gave, except those already shown.

    Ends when ``stop`` returns True, or when the session is gone.
    """
    at, seen = start, set(shown)
    stored = msgspec.structs.replace(stored, changed_ns=0)  # what was written since it was found is new
    while not stop():
        now = place.find(stored.id)
        if now is None:
            return
        if now.changed_ns != stored.changed_ns or now.size != stored.size:
            if now.size < at and now.appends:  # it was rewritten
                at = 0
            for record in place.archive.read(now, at if now.appends else 0):
                at = record.next
                for entry in record.entries:
                    if entry.id not in seen:
                        seen.add(entry.id)
                        yield entry
            stored = now
        time.sleep(every_s)


def end_of(reader: SessionArchive, stored: StoredSession) -> int:
    """The place after the last complete record."""
    if not stored.appends:
        return 0
    last = next(iter(reader.back(stored)), None)
    if last is None:
        return 0
    whole = any(record.start == last.start for record in reader.read(stored, last.start))
    return last.next if whole else last.start


def _record(reader: SessionArchive, stored: StoredSession, event: str) -> Record:
    """The record that contains an event: read at its place, or searched for from the end."""
    place = _place(stored, event)
    if place is not None and place >= stored.size:
        raise _no_event(event)
    records = islice(reader.read(stored, place), 1) if place is not None else reader.back(stored)
    for record in records:
        if any(is_called(entry, event) for entry in record.entries):
            return record
    raise _no_event(event)


def _place(stored: StoredSession, event: str) -> int | None:
    """Where the record of an event starts, if its id says so."""
    placed = _PLACE.fullmatch(event)
    return int(placed[1]) if stored.appends and placed is not None and int(placed[1]) >= 0 else None


def _is_whole(reader: SessionArchive, stored: StoredSession, last: Record) -> bool:
    """Whether the last record is not still being written."""
    if not stored.appends:
        return True
    return any(record.start == last.start for record in islice(reader.read(stored, last.start), 1))


def _after(reader: SessionArchive, stored: StoredSession, event: str, size: int) -> Iterator[Record]:
    """The records after an event: read from its place, or searched for from the end."""
    if _place(stored, event) is not None:
        found = _record(reader, stored, event)
        yield _rest(found, event)
        yield from islice(reader.read(stored, found.start), 1, None)
        return
    newer: deque[Record] = deque(maxlen=size + 1)
    for record in reader.back(stored):
        if any(is_called(entry, event) for entry in record.entries):
            yield _rest(record, event)
            yield from reversed(newer)
            return
        newer.append(record)
    raise _no_event(event)


def _rest(record: Record, event: str) -> Record:
    at = next(n for n, entry in enumerate(record.entries) if is_called(entry, event))
    return Record(record.start, record.next, record.entries[at + 1 :])


def is_called(entry: Entry, name: str) -> bool:
    """Whether ``name`` is the entry's id (its place) or the CLI's own id."""
    return name in (entry.id, entry.native)


def _before(reader: SessionArchive, stored: StoredSession, event: str | None) -> Iterator[Record]:
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
    raise _no_event(event)


def _no_event(event: str) -> NotFound:
    return NotFound(f"there is no event {event[:80]} in this session; the CLI may have rewritten it")
