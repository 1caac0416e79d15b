"""Reads sessions for the index, in batches of rows that are handed over to be written."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from segue.agents.reader import Record
from segue.core.transcript import Entry
from segue.sessions.index import KINDS, File, Index, mark_of
from segue.sessions.index_plan import Job
from segue.sessions.index_words import In, indexed, marks, searched, storable, wording
from segue.sessions.index_writer import Batch, Writer
from segue.sessions.tally import is_message

BATCH_BYTES, BATCH_ROWS = 512 * 1024, 400

Progress = Callable[[int, int], None]
"""Called with how many bytes are read, of how many."""
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
_LATEST_MS = 253_402_300_800_000
_BOTH: tuple[In, In] = ("text", "tool")


class Reading:
    """Reads sessions one after another and hands their rows over in batches."""

    def __init__(self, index: Index, writer: Writer, progress: Progress, total: int) -> None:
        self._writer, self._progress, self._total = writer, progress, total
        self._row = index.state().get("next", 1)
        self._file = 1 + int(index.connection.execute("SELECT coalesce(max(id), 0) FROM files").fetchone()[0])
        self._batch = Batch()
        self.done = 0
        self.text_bytes = 0

    def read(self, job: Job) -> None:
        before = self.done
        session = _Session(job, self._begun(job))
        for record in job.place.reader.read(job.stored, job.start):
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

    def _begun(self, job: Job) -> File:
        if job.known is not None:
            return job.known
        self._file += 1
        stored = job.stored
        cwd = job.place.reader.brief(stored).cwd
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
    """A session may claim any time; what no calendar knows is none."""
    return at_ms if at_ms is not None and 0 <= at_ms < _LATEST_MS else None


class _Session:
    """One session while it is read."""

    def __init__(self, job: Job, file: File) -> None:
        self.job, self.file = job, file
        self.at, self.messages, self.bytes = file.place, file.messages, file.bytes
        self._seen: set[str] | None = None
        """The ids of the records so far; collected only where something is said again."""
        self.marks = {where: marks(file.agent, file.cwd, where) for where in _BOTH}

    def was_said(self, entry: Entry, start: int) -> bool:
        """Whether a record before this one said the same."""
        if self._seen is None:
            self._seen = set()
            for record in self.job.place.reader.read(self.job.stored):
                if record.start >= start:
                    break
                self.saw(record)
        return bool(entry.native) and entry.native in self._seen

    def saw(self, record: Record) -> None:
        if self._seen is not None:
            self._seen.update(entry.native for entry in record.entries)

    def so_far(self) -> File:
        """Its size says that there is more to come."""
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
