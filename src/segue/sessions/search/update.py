"""Updates the search index: reads only what is new in files that have grown, and drops files that are gone.

What to do is decided from names, sizes and times if possible. What is read goes to the writer in batches.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import Record, StoredSession
from segue.core.errors import Broken
from segue.core.transcript import Entry, is_message
from segue.sessions.agent_homes import AgentHome
from segue.sessions.search.index import (
    KINDS,
    Batch,
    File,
    Index,
    Writer,
    discard,
    locked,
    mark_of,
    open_index,
)
from segue.sessions.search.query import In, indexed, marks, searched, storable, wording

_LARGEST = (1 << 63) - 1
"""Some file systems have inode numbers that are too large for a database."""


class IndexJob(msgspec.Struct, frozen=True):
    """A session to read, from where the index left off or from its beginning."""

    place: AgentHome
    stored: StoredSession
    inode: int
    known: File | None = None
    """None: it is new, or has to be read from its beginning."""

    @property
    def start(self) -> int:
        return self.known.place if self.known is not None else 0

    @property
    def bytes(self) -> int:
        return max(self.stored.size - self.start, 0)


class IndexPlan(msgspec.Struct, frozen=True):
    jobs: Sequence[IndexJob]
    """The oldest change first, so that newer rows have higher numbers."""
    dropped: Sequence[File]
    """Files that are gone or were rewritten."""


def plan_update(known: Iterable[File], places: Iterable[AgentHome]) -> IndexPlan:
    files = {(file.path, file.agent): file for file in known}
    jobs: list[IndexJob] = []
    dropped: list[File] = []
    seen: set[tuple[bytes, str]] = set()
    for place in places:
        for stored in place.archive.stored(place.home):
            key = (os.fsencode(stored.file), place.agent)
            if key in seen:
                continue
            seen.add(key)
            file = files.pop(key, None)
            if file is not None and (file.size, file.changed_ns) == (stored.size, stored.changed_ns):
                continue
            job = _job(place, stored, file)
            if job.known is None and file is not None:
                dropped.append(file)
            jobs.append(job)
    jobs.sort(key=lambda job: job.stored.changed_ns)
    return IndexPlan(jobs, [*dropped, *files.values()])


def _job(place: AgentHome, stored: StoredSession, file: File | None) -> IndexJob:
    inode = _inode(stored.path)
    grown = (
        file is not None
        and stored.appends
        and file.appends
        and file.inode == inode
        and 0 < file.place <= stored.size
        and file.size != stored.size
        and file.mark == mark_of(stored.path, file.place)
    )
    return IndexJob(place, stored, inode, file if grown else None)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino & _LARGEST
    except OSError:
        return 0


BATCH_BYTES, BATCH_ROWS = 512 * 1024, 400

Progress = Callable[[int, int], None]
"""Called with the number of bytes read, and the total."""
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
_LATEST_MS = 253_402_300_800_000
_BOTH: tuple[In, In] = ("text", "tool")


class IndexReader:
    """Reads sessions one after another and passes their rows to the writer in batches."""

    def __init__(self, index: Index, writer: Writer, progress: Progress, total: int) -> None:
        self._writer, self._progress, self._total = writer, progress, total
        self._row = index.state().get("next", 1)
        self._file = 1 + int(index.connection.execute("SELECT coalesce(max(id), 0) FROM files").fetchone()[0])
        self._batch = Batch()
        self.done = 0
        self.text_bytes = 0

    def read(self, job: IndexJob) -> None:
        before = self.done
        session = _Session(job, self._begun(job))
        for record in job.place.archive.read(job.stored, job.start):
            session.at = max(session.at, record.next)
            for entry in record.entries:
                self._entry(session, entry, record.start)
            session.saw(record)
            if self._batch.bytes > BATCH_BYTES or self._batch.count >= BATCH_ROWS:
                self._hand_over(session)
                self.done = before + min(session.at - job.start, job.bytes)
                self._progress(self.done, self._total)
        self._batch.files[session.file.id] = session.ended()
        self.done = before + job.bytes
        self._progress(self.done, self._total)

    def flush(self) -> None:
        self._batch.next = self._row
        self._writer.put(self._batch)
        self._batch = Batch()

    def _hand_over(self, session: _Session) -> None:
        self._batch.files[session.file.id] = session.so_far()
        self.flush()

    def _entry(self, session: _Session, entry: Entry, start: int) -> None:
        if entry.again and session.was_said(entry, start):
            return
        session.messages += is_message(entry)
        where = searched(entry)
        if where is None:
            return
        text = indexed(wording(entry))
        if not text or text.isspace():
            return
        at, _, n = entry.id.partition(".")
        row = (self._row, session.file.id, int(at), int(n), _NUMBER[entry.kind], _moment(entry.at_ms))
        self._batch.add(row, text, session.marks[where])
        self._row += 1
        session.bytes += len(text)
        self.text_bytes += len(text)

    def _begun(self, job: IndexJob) -> File:
        if job.known is not None:
            return job.known
        self._file += 1
        stored = job.stored
        cwd = job.place.archive.brief(stored).cwd
        return File(
            id=self._file - 1,
            agent=job.place.agent,
            home=os.fsencode(job.place.home),
            session=storable(stored.id),
            path=os.fsencode(stored.file),
            appends=stored.appends,
            size=-1,
            changed_ns=stored.changed_ns,
            inode=job.inode,
            place=0,
            mark=b"",
            cwd=storable(cwd) if cwd is not None else None,
            messages=0,
            bytes=0,
            first=self._row,
        )


def _moment(at_ms: int | None) -> int | None:
    """The time, or None if it is not a plausible one: a session can contain any number."""
    return at_ms if at_ms is not None and 0 <= at_ms < _LATEST_MS else None


class _Session:
    """One session while it is read."""

    def __init__(self, job: IndexJob, file: File) -> None:
        self.job, self.file = job, file
        self.at, self.messages, self.bytes = file.place, file.messages, file.bytes
        self._seen: set[str] | None = None
        """The ids of the records so far; collected only if an entry is a repetition."""
        self.marks = {where: marks(file.agent, file.cwd, where) for where in _BOTH}

    def was_said(self, entry: Entry, start: int) -> bool:
        """Whether a record before this one has the same entry."""
        if self._seen is None:
            self._seen = set()
            for record in self.job.place.archive.read(self.job.stored):
                if record.start >= start:
                    break
                self.saw(record)
        return bool(entry.native) and entry.native in self._seen

    def saw(self, record: Record) -> None:
        if self._seen is not None:
            self._seen.update(entry.native for entry in record.entries)

    def so_far(self) -> File:
        """The file's row before its end is reached: its size shows that there is more to read."""
        return self._file(self.at if self.job.stored.appends else -1)

    def ended(self) -> File:
        return self._file(self.job.stored.size)

    def _file(self, size: int) -> File:
        stored = self.job.stored
        return msgspec.structs.replace(
            self.file,
            size=size,
            changed_ns=stored.changed_ns,
            place=self.at,
            mark=mark_of(stored.path, self.at) if stored.appends else b"",
            messages=self.messages,
            bytes=self.bytes,
        )


PATIENCE_S = 2.0
"""How long to wait for another process that updates the index."""
GARBAGE = 1 / 3
"""If more than this share of the indexed text was dropped, the index is rebuilt."""


class Updated(msgspec.Struct, frozen=True):
    """What an update did. ``busy``: nothing, because another process was updating the index."""

    sessions: int = 0
    bytes: int = 0
    dropped: int = 0
    busy: bool = False


def update(
    index: Index, places: Sequence[AgentHome], progress: Progress | None = None, wait_s: float = PATIENCE_S
) -> Updated:
    """Read what is new since the last update. Files that are not in ``places`` are dropped."""
    with locked(index.path, wait_s) as mine:
        if not mine:
            return Updated(busy=True)
        try:
            return _update(index, places, progress or (lambda done, total: None))
        except sqlite3.OperationalError as error:
            raise Broken(f"cannot write the search index {index.path}: {error}") from error


def updated(
    path: Path, places: Sequence[AgentHome], progress: Progress | None = None, wait_s: float = PATIENCE_S
) -> tuple[Index, Updated]:
    """Open the index and update it. A damaged one is rebuilt: everything in it comes from the files."""
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


def _update(index: Index, places: Sequence[AgentHome], progress: Progress) -> Updated:
    planned = plan_update(index.files(), places)
    if planned.dropped and _drop(index, planned.dropped):
        planned = plan_update((), places)
    if not planned.jobs:
        return Updated(dropped=len(planned.dropped))
    total = sum(job.bytes for job in planned.jobs)
    with Writer(index) as writer:
        reading = IndexReader(index, writer, progress, total)
        for job in planned.jobs:
            reading.read(job)
        reading.flush()
    if reading.text_bytes > BATCH_BYTES:
        index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Updated(sessions=len(planned.jobs), bytes=reading.done, dropped=len(planned.dropped))


def _drop(index: Index, files: Iterable[File]) -> bool:
    """Drop the rows of these files. Returns True if there was too much garbage: the index is empty then."""
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
        rebuild = garbage > GARBAGE * (held + garbage)
        if rebuild:
            run("INSERT INTO words (words) VALUES ('delete-all')")
            run("DELETE FROM rows")
            run("DELETE FROM files")
            garbage = 0
        run("INSERT OR REPLACE INTO state VALUES ('garbage', ?)", (garbage,))
        run("COMMIT")
    except BaseException:
        index.connection.rollback()
        raise
    return rebuild
