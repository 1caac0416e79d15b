"""What an update of the index has to do, told by names, sizes and times alone where that is enough."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from segue.agents.reader import Stored
from segue.sessions.index import File, mark_of
from segue.sessions.places import Place

_LARGEST = (1 << 63) - 1
"""Some file systems number their files beyond what a database takes."""


class Job(msgspec.Struct, frozen=True):
    """A session to be read, from where the index left off or from its beginning."""

    place: Place
    stored: Stored
    inode: int
    known: File | None = None
    """None: it is new, or has to be read anew."""

    @property
    def start(self) -> int:
        return self.known.place if self.known is not None else 0

    @property
    def bytes(self) -> int:
        return max(self.stored.size - self.start, 0)


class Plan(msgspec.Struct, frozen=True):
    jobs: Sequence[Job]
    """The one that was changed longest ago first, so that newer rows have higher numbers."""
    dropped: Sequence[File]
    """Files that are gone, and those that were rewritten."""


def plan(known: Iterable[File], places: Iterable[Place]) -> Plan:
    files = {(file.path, file.agent): file for file in known}
    jobs: list[Job] = []
    dropped: list[File] = []
    met: set[tuple[bytes, str]] = set()
    for place in places:
        for stored in place.reader.stored(place.home):
            key = (os.fsencode(stored.file), place.agent)
            if key in met:
                continue
            met.add(key)
            file = files.pop(key, None)
            if file is not None and (file.size, file.changed_ns) == (stored.size, stored.changed_ns):
                continue
            job = _job(place, stored, file)
            if job.known is None and file is not None:
                dropped.append(file)
            jobs.append(job)
    jobs.sort(key=lambda job: job.stored.changed_ns)
    return Plan(jobs, [*dropped, *files.values()])


def _job(place: Place, stored: Stored, file: File | None) -> Job:
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
    return Job(place, stored, inode, file if grown else None)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino & _LARGEST
    except OSError:
        return 0
