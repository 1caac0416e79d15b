"""Full-text search over all native sessions: the best and newest matches, each read from its file.

The index only has positions; the text is read from the files. A row whose file is gone or has changed is
skipped, and the next update reads that file again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import Record, StoredSession, entry_id
from segue.core.errors import Broken
from segue.core.transcript import Entry, Kind
from segue.sessions.agent_homes import AgentHome
from segue.sessions.search.index import KINDS, Index
from segue.sessions.search.query import (
    In,
    Scale,
    Term,
    agent_mark,
    cwd_mark,
    fts,
    parsed,
    score,
    searched,
    wording,
)
from segue.sessions.search.snippets import Found, find_words, shown_text
from segue.system import clock

CANDIDATES = 600
"""How many of the newest matches are taken from the index."""
READ = 80
"""How many of those are read from the files."""
READ_PER_SESSION = 10
"""How many of those are read from one session, separately for what was said and for tools."""
PROBED = 100
_EVER, _NEVER = -(1 << 62), 1 << 62


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for, and where."""

    text: str
    agents: tuple[str, ...] = ()
    since_ms: int | None = None
    where: In | None = None
    here: Path | None = None
    """Only sessions that were started in this directory or below it."""
    limit: int = 20


class Row(msgspec.Struct, frozen=True):
    """A place in a session's file. ``at_ms`` is the file's modification time if the entry has no time."""

    file: int
    at: int
    n: int
    number: int
    at_ms: int
    agent: str
    home: bytes
    session: str
    path: bytes
    appends: int
    cwd: str | None

    @property
    def kind(self) -> str:
        return KINDS[self.number]

    @property
    def is_tool(self) -> bool:
        return self.kind in ("call", "result")


_SQL = """
SELECT rows.file, rows.at, rows.n, rows.kind, coalesce(rows.at_ms, files.changed_ns / 1000000) AS moment,
    files.agent, files.home, files.session, files.path, files.appends, files.cwd
FROM words CROSS JOIN rows ON rows.id = words.rowid CROSS JOIN files ON files.id = rows.file
WHERE words MATCH :match AND words.rowid >= :first AND moment >= :since
ORDER BY words.rowid DESC LIMIT :most
"""


def candidates(index: Index, terms: Sequence[Term], wanted: Wanted) -> list[Row]:
    """The newest rows that match: what was said before the output of tools, with a limit per session."""
    match = _match(index, terms, wanted)
    if match is None:
        return []
    given = {
        "match": match,
        "first": _first(index, wanted.since_ms),
        "since": wanted.since_ms if wanted.since_ms is not None else _EVER,
        "most": max(CANDIDATES, wanted.limit),
    }
    rows = [Row(*row) for row in index.connection.execute(_SQL, given)]
    return _chosen(rows, max(READ, wanted.limit))


def scale_of(index: Index, terms: Sequence[Term]) -> Scale:
    run = index.connection.execute
    rows = max(index.state().get("next", 1) - 1, 1)
    held = int(run("SELECT coalesce(sum(bytes), 0) FROM files").fetchone()[0])
    rates: dict[str, float] = {}
    for word in {word for term in terms for word in term.words}:
        sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
        newest = [row[0] for row in run(sql, (fts((Term((word,)),)), PROBED))]
        back = rows + 1 - newest[-1] if len(newest) == PROBED else rows
        rates[word] = min(len(newest) / max(back, 1), 1.0)
    return Scale(rows, held / rows, rates)


def _chosen(rows: Sequence[Row], most: int) -> list[Row]:
    counts: dict[tuple[int, bool], int] = {}
    said: list[Row] = []
    done: list[Row] = []
    for row in rows:
        key = (row.file, row.is_tool)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= READ_PER_SESSION:
            (done if row.is_tool else said).append(row)
    room = max(most // 2, most - len(done))
    return [*said[:room], *done[: most - min(len(said), room)]]


def _match(index: Index, terms: Sequence[Term], wanted: Wanted) -> str | None:
    """The FTS5 query; None if nothing can match."""
    parts = [fts(terms)]
    if wanted.where is not None:
        parts.append(f"mark : k{wanted.where}")
    if wanted.agents:
        parts.append(_any(agent_mark(agent) for agent in wanted.agents))
    if wanted.here is not None:
        sql = "SELECT DISTINCT cwd FROM files"
        recorded = [cwd for (cwd,) in index.connection.execute(sql)]
        below = list(_below(recorded, wanted.here))
        if not below:
            return None
        if len(below) < len(recorded):
            parts.append(_any(map(cwd_mark, below)))
    return " AND ".join(f"({part})" for part in parts)


def _any(marks: Iterable[str]) -> str:
    return f"mark : ({' OR '.join(marks)})"


def _first(index: Index, since_ms: int | None) -> int:
    """The first row that can be new enough: files that were not changed since then have no newer rows."""
    if since_ms is None:
        return 0
    sql = "SELECT min(first) FROM files WHERE changed_ns / 1000000 >= ?"
    found = index.connection.execute(sql, (since_ms,)).fetchone()[0]
    return int(found) if found is not None else _NEVER


def _below(recorded: Iterable[str | None], here: Path) -> Iterator[str]:
    """The recorded directories that are this one, compared by identity, or below it."""
    root = os.path.realpath(here)
    own = _identity(root)
    for cwd in recorded:
        if cwd is None or not cwd.startswith("/") or "\0" in cwd:
            continue
        path = os.path.realpath(cwd)
        below = path == root or path.startswith(root.rstrip("/") + "/")
        if below or (own is not None and _identity(path) == own):
            yield cwd


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


PER_SESSION = 3
"""How many matches of one session are shown, the best ones."""


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
    """A row whose file still contains the match."""

    row: Row
    place: AgentHome
    entry: Entry
    text: str
    found: Found
    score: float


def search(index: Index, places: Sequence[AgentHome], wanted: Wanted, now_ms: int | None = None) -> list[Hit]:
    """The best matches first, grouped by session."""
    terms = parsed(wanted.text)
    now = clock.now_ms() if now_ms is None else now_ms
    try:
        rows = candidates(index, terms, wanted)
        scale = scale_of(index, terms)
    except sqlite3.DatabaseError as error:
        why = f"cannot read the search index {index.path}: {error}"
        raise Broken(f"{why}; delete it, and it will be rebuilt") from error
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
    piece = shown_text(match.text, match.found)
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
    """Reads the entries of rows. A session that can only be read as a whole is read once."""

    def __init__(self, index: Index, places: Sequence[AgentHome]) -> None:
        self._index = index
        self._places = {(place.agent, os.fsencode(place.home)): place for place in places}
        self._whole: dict[int, dict[int, Record]] = {}
        self._changed: set[int] = set()

    def at(self, row: Row, terms: Sequence[Term]) -> tuple[AgentHome, Entry, str, Found] | None:
        place = self._places.get((row.agent, row.home))
        if place is None or row.file in self._changed:
            return None
        entry = self._entry(place, row)
        text = wording(entry) if entry is not None else ""
        found = find_words(text, terms)
        if entry is None or found is None:
            self._changed.add(row.file)
            self._index.forget(row.file)
            return None
        return place, entry, text, found

    def _entry(self, place: AgentHome, row: Row) -> Entry | None:
        record = self._record(place, row)
        if record is None or record.start != row.at:
            return None
        entry = next((each for each in record.entries if each.id == entry_id(row.at, row.n)), None)
        same = entry is not None and entry.kind == row.kind and searched(entry) is not None
        return entry if same else None

    def _record(self, place: AgentHome, row: Row) -> Record | None:
        stored = StoredSession(
            id=row.session,
            home=place.home,
            file=os.fsdecode(row.path),
            size=0,
            changed_ns=0,
            appends=bool(row.appends),
        )
        if row.appends:
            return next(iter(place.archive.read(stored, row.at)), None)
        if row.file not in self._whole:
            self._whole[row.file] = {record.start: record for record in place.archive.read(stored)}
        return self._whole[row.file].get(row.at)
