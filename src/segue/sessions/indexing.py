"""Brings the search index up to date: only what is new in grown files is read, what is gone is dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from segue.core.errors import Broken
from segue.sessions.index import File, Index, discard, locked, open_index
from segue.sessions.index_plan import plan
from segue.sessions.index_reading import BATCH_BYTES, Progress, Reading
from segue.sessions.index_writer import Writer
from segue.sessions.places import Place

PATIENCE_S = 2.0
"""So long another process that updates the index is waited for."""
GARBAGE = 1 / 3
"""Above this share of dropped text the index is made anew."""


class Updated(msgspec.Struct, frozen=True):
    """What an update did. ``busy``: nothing, since another process was at it."""

    sessions: int = 0
    bytes: int = 0
    dropped: int = 0
    busy: bool = False


def update(
    index: Index, places: Sequence[Place], progress: Progress | None = None, wait_s: float = PATIENCE_S
) -> Updated:
    """Read what is new since the last time. ``places`` are all there are: files elsewhere are forgotten."""
    with locked(index.path, wait_s) as mine:
        if not mine:
            return Updated(busy=True)
        try:
            return _update(index, places, progress or (lambda done, total: None))
        except sqlite3.OperationalError as error:
            raise Broken(f"the search index {index.path} cannot be written: {error}") from error


def updated(
    path: Path, places: Sequence[Place], progress: Progress | None = None, wait_s: float = PATIENCE_S
) -> tuple[Index, Updated]:
    """The index, open and up to date. A damaged one is made anew: everything in it comes from the files."""
    for last in (False, True):
        index = open_index(path)
        try:
            return index, update(index, places, progress, wait_s)
        except sqlite3.DatabaseError as error:
            index.close()
            if last:
                raise Broken(f"the search index {path} is damaged: {error}") from error
            discard(path)
        except BaseException:
            index.close()
            raise
    raise AssertionError("unreachable")


def _update(index: Index, places: Sequence[Place], progress: Progress) -> Updated:
    planned = plan(index.files(), places)
    if planned.dropped and _drop(index, planned.dropped):
        planned = plan((), places)
    if not planned.jobs:
        return Updated(dropped=len(planned.dropped))
    total = sum(job.bytes for job in planned.jobs)
    with Writer(index) as writer:
        reading = Reading(index, writer, progress, total)
        for job in planned.jobs:
            reading.read(job)
        reading.flush()
    if reading.text_bytes > BATCH_BYTES:
        index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Updated(sessions=len(planned.jobs), bytes=reading.done, dropped=len(planned.dropped))


def _drop(index: Index, files: Iterable[File]) -> bool:
    """Take out the rows of files; True: there was too much garbage, and nothing at all is left."""
    run = index.connection.execute
    run("BEGIN IMMEDIATE")
    try:
        run("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")
        run("DELETE FROM gone")
        index.connection.executemany("INSERT INTO gone VALUES (?)", [(file.id,) for file in files])
        run("DELETE FROM rows WHERE file IN gone")
        garbage = index.state().get("garbage", 0) + sum(file.bytes for file in files)
        run("DELETE FROM files WHERE id IN gone")
        held = int(run("SELECT coalesce(sum(bytes), 0) FROM files").fetchone()[0])
        anew = garbage > GARBAGE * (held + garbage)
        if anew:
            run("INSERT INTO words (words) VALUES ('delete-all')")
            run("DELETE FROM rows")
            run("DELETE FROM files")
            garbage = 0
        run("INSERT OR REPLACE INTO state VALUES ('garbage', ?)", (garbage,))
        run("COMMIT")
    except BaseException:
        index.connection.rollback()
        raise
    return anew
