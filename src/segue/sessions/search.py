"""Full-text search over all native sessions: the newest and best matches, each shown from its file.

The index only says where; what is shown is read there. A row whose file is gone or says something else by
now is passed over, and its file is read anew with the next update.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence

import msgspec

from segue.agents.reader import Record, Stored
from segue.agents.reader import place as place_of
from segue.core.errors import Broken
from segue.core.transcript import Entry, Kind
from segue.sessions import search_rows
from segue.sessions.index import Index
from segue.sessions.index_words import searched, wording
from segue.sessions.places import Place
from segue.sessions.search_query import Term, parsed
from segue.sessions.search_rank import score
from segue.sessions.search_rows import Row, Wanted
from segue.sessions.snippets import Found, find, shown

PER_SESSION = 3
"""No session shows more than its best few."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One match, as ``--json`` shows it. ``place`` is the id of the entry in its session."""

    agent: str
    account: str | None
    session: str
    path: str
    cwd: str | None
    place: str
    kind: Kind
    at: int | None
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    score: float


class _Match(msgspec.Struct, frozen=True):
    """A row that still says what the index has of it."""

    row: Row
    place: Place
    entry: Entry
    text: str
    found: Found
    score: float


def search(index: Index, places: Sequence[Place], wanted: Wanted, now_ms: int | None = None) -> list[Hit]:
    """The best matches first; those of one session stand together."""
    terms = parsed(wanted.text)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    try:
        rows = search_rows.candidates(index, terms, wanted)
        scale = search_rows.scale(index, terms)
    except sqlite3.DatabaseError as error:
        why = f"the search index {index.path} cannot be read: {error}"
        raise Broken(f"{why}; delete it, and it will be built again") from error
    looking = _Looking(index, places)
    matches: list[_Match] = []
    for row in rows:
        if (seen := looking.at(row, terms)) is not None:
            place, entry, text, found = seen
            counts = [(term, len(spans)) for term, spans in zip(terms, found, strict=True)]
            value = score(scale, counts, len(text), tool=row.is_tool, age_ms=now - row.at_ms)
            matches.append(_Match(row, place, entry, text, found, value))
    matches.sort(key=lambda match: (-match.score, -match.row.at_ms))
    return [_hit(match) for match in _grouped(matches, wanted.limit)]


def _grouped(matches: Sequence[_Match], limit: int) -> Iterator[_Match]:
    groups: dict[int, list[_Match]] = {}
    taken = 0
    for match in matches:
        group = groups.setdefault(match.row.file, [])
        if taken < limit and len(group) < PER_SESSION:
            group.append(match)
            taken += 1
    for group in groups.values():
        yield from group


def _hit(match: _Match) -> Hit:
    piece = shown(match.text, match.found)
    return Hit(
        agent=match.row.agent,
        account=match.place.account,
        session=match.row.session,
        path=os.fsdecode(match.row.path),
        cwd=match.row.cwd,
        place=match.entry.id,
        kind=match.entry.kind,
        at=match.row.at_ms,
        snippet=piece.text,
        highlights=piece.highlights,
        score=match.score,
    )


class _Looking:
    """Reads what rows lead to. A session that cannot be read in part is read once."""

    def __init__(self, index: Index, places: Sequence[Place]) -> None:
        self._index = index
        self._places = {(place.agent, os.fsencode(place.home)): place for place in places}
        self._whole: dict[int, dict[int, Record]] = {}
        self._changed: set[int] = set()

    def at(self, row: Row, terms: Sequence[Term]) -> tuple[Place, Entry, str, Found] | None:
        place = self._places.get((row.agent, row.home))
        if place is None or row.file in self._changed:
            return None
        entry = self._entry(place, row)
        text = wording(entry) if entry is not None else ""
        found = find(text, terms)
        if entry is None or found is None:
            self._changed.add(row.file)
            self._index.forget(row.file)
            return None
        return place, entry, text, found

    def _entry(self, place: Place, row: Row) -> Entry | None:
        record = self._record(place, row)
        if record is None or record.start != row.at:
            return None
        entry = next((each for each in record.entries if each.id == place_of(row.at, row.n)), None)
        same = entry is not None and entry.kind == row.kind and searched(entry) is not None
        return entry if same else None

    def _record(self, place: Place, row: Row) -> Record | None:
        stored = Stored(
            id=row.session,
            home=place.home,
            file=os.fsdecode(row.path),
            size=0,
            changed_ns=0,
            appends=bool(row.appends),
        )
        if row.appends:
            return next(iter(place.reader.read(stored, row.at)), None)
        if row.file not in self._whole:
            self._whole[row.file] = {record.start: record for record in place.reader.read(stored)}
        return self._whole[row.file].get(row.at)
