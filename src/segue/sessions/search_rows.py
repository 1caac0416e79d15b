"""Which rows of the index may answer a search: the newest that match, and what tells how rare words are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from segue.sessions.index import KINDS, Index
from segue.sessions.index_words import In, agent_mark, cwd_mark
from segue.sessions.search_query import Term, fts
from segue.sessions.search_rank import Scale

CANDIDATES = 600
"""So many of the newest matches are looked at in the index,"""
READ = 80
"""and so many of those are read, no more of one session than"""
READ_PER_SESSION = 10
PROBED = 100
_EVER, _NEVER = -(1 << 62), 1 << 62


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where."""

    text: str
    agents: tuple[str, ...] = ()
    since_ms: int | None = None
    where: In | None = None
    here: Path | None = None
    """Only sessions that were begun in this directory or below it."""
    limit: int = 20


class Row(msgspec.Struct, frozen=True):
    """A place in a session's file. ``at_ms`` is the file's own time where the entry has none."""

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
    """The newest rows that match: what was said before what tools put out, and no session drowns others."""
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


def scale(index: Index, terms: Sequence[Term]) -> Scale:
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
    """None: it cannot match anything."""
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
    """No row before it is new enough: files that nobody touched since then hold nothing newer."""
    if since_ms is None:
        return 0
    sql = "SELECT min(first) FROM files WHERE changed_ns / 1000000 >= ?"
    found = index.connection.execute(sql, (since_ms,)).fetchone()[0]
    return int(found) if found is not None else _NEVER


def _below(recorded: Iterable[str | None], here: Path) -> Iterator[str]:
    """The recorded directories that are this one, by identity, or lie below it."""
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
