"""Reads a session: page by page from its end, as it grows, or as the messages of a conversation.

A page takes no more of the file than it needs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from segue.agents.base import Record, SessionArchive, StoredSession, entry_id
from segue.core.errors import Misuse
from segue.core.prompt_parts import user_words
from segue.core.transcript import Entry, is_message
from segue.sessions.agent_homes import AgentHome

EVERY_S = 0.25
SIZE = 100
_PLACE = re.compile(r"(-?\d{1,18})\.(\d{1,9})")


class Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some events in the order in which they happened. ``first_id`` is the cursor for the page before."""

    first_id: str | None
    has_more: bool
    size: int
    events: tuple[Entry, ...]


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


def page_around(reader: SessionArchive, stored: StoredSession, event: str, size: int = SIZE) -> Page:
    """The page that ends with an event."""
    record = _record(reader, stored, event)
    before = newest_page(
        reader, stored, before_id=entry_id(record.start), size=max(size - len(record.entries), 1)
    )
    events = (*before.events, *record.entries)
    return Page(
        first_id=before.first_id or record.entries[0].id,
        has_more=before.has_more,
        size=len(events),
        events=events,
    )


class SessionMessage(msgspec.Struct):
    """One message as the session tells it; an answer that came in pieces is one message."""

    sender: str
    text: str
    at_ms: int | None


def session_dialogue(entries: Iterable[Entry]) -> Iterator[SessionMessage]:
    """What the user said, and what the agent said until the user's next word."""
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
    """What was said; of a prompt that Segue composed only the user's part, for the rest was carried along."""
    words = user_words(said.text) if said.sender == "user" else None
    return words if words is not None and words.strip() else said.text


def in_force(entries: Sequence[Entry]) -> list[Entry]:
    """Without what was abandoned: where entries form a chain, only those that lead to the last message.

    A summary begins a chain of its own; what came before it was said all the same, and so was what came
    before a break.
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
    """From a message back to where its chain begins. The place before which to go on; None: nowhere."""
    at = leaf
    while True:
        if at.native in kept:
            return None
        kept.add(at.native)
        if at.parent is None:
            summed = at.kind == "boundary" or at.label == "compaction"
            return places[at.native] if summed else None
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
    """The entries behind a place that ``end`` gave, without those that were shown already.

    It ends when told to, or when the session is gone.
    """
    at, seen = start, set(shown)
    stored = msgspec.structs.replace(stored, changed_ns=0)  # what came since it was found is new
    while not stop():
        now = place.find(stored.id)
        if now is None:
            return
        if now.changed_ns != stored.changed_ns or now.size != stored.size:
            if now.size < at and now.appends:  # somebody wrote it anew
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
    """Behind the last record that is whole."""
    if not stored.appends:
        return 0
    last = next(iter(reader.back(stored)), None)
    if last is None:
        return 0
    whole = any(record.start == last.start for record in reader.read(stored, last.start))
    return last.next if whole else last.start


def _record(reader: SessionArchive, stored: StoredSession, event: str) -> Record:
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
    raise _nowhere(event)


def _nowhere(event: str) -> Misuse:
    return Misuse(f"there is no event {event[:80]} in this session; the CLI may have rewritten it")
