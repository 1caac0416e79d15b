"""Copies one file into pieces, and stores only those that are new.

A file that has grown is read from where it ended before. A file that was rewritten is cut at the same places
as before, so that unchanged parts give the same pieces. Now and then, many small pieces are merged into few
large ones. A lost piece is read from the file and stored again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile
from pathlib import Path
from typing import IO

from segue.sessions.copies.chunks import LARGEST, Chunk, Chunks, KeptFile, name_of, pack

SMALL = LARGEST // 2
MANY = 32
"""With at most this many small pieces, nothing is merged."""
TAIL = 4096
NO_FILE = (errno.ENOENT, errno.ELOOP, errno.ENXIO)


def copy_file(
    path: Path,
    name: str,
    before: KeptFile | None,
    chunks: Chunks,
    lost: AbstractSet[str],
    *,
    follow: bool,
) -> KeptFile | None:
    """Copy the file as it is now. Returns None if it is gone, or no longer a regular file.

    ``name``: its path in the copy; ``before``: its previous copy; ``lost``: pieces that are missing;
    ``follow``: it may be a link to a file.
    """
    if (opened := open_regular(path, follow=follow)) is None:
        return None
    with opened as file:
        now = os.fstat(file.fileno())
        made = Pieces(file, chunks, lost)
        if before is not None and _grown(before, now, file) and whole_file(before, lost):
            made.done.extend(before.chunks)
            made.take(_upto(file, before.size, now.st_size))
        else:
            made.take_again(now.st_size, before.chunks if before is not None else ())
        made.merge()
        size = sum(chunk.size for chunk in made.done)
        return KeptFile(name, size, now.st_mtime_ns, now.st_ino, _tail(file, size), tuple(made.done))


def untouched(before: KeptFile, now: os.stat_result) -> bool:
    """Whether the file was not written to since it was copied."""
    return (before.size, before.changed_ns, before.inode) == (now.st_size, now.st_mtime_ns, now.st_ino)


def whole_file(before: KeptFile, lost: AbstractSet[str]) -> bool:
    """Whether all pieces of its copy are still stored."""
    return not any(chunk.name in lost for chunk in before.chunks)


def open_regular(path: Path, *, follow: bool) -> IO[bytes] | None:
    """Open a regular file to read; None for anything else, such as a pipe, or a link unless ``follow``."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        opened = os.open(path, flags)
    except OSError as error:
        if error.errno in NO_FILE:
            return None
        raise
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return open(opened, "rb")
    os.close(opened)
    return None


class Pieces:
    """The pieces of one file, in their order."""

    def __init__(self, file: IO[bytes], chunks: Chunks, lost: AbstractSet[str]) -> None:
        self._file, self._chunks, self._lost = file, chunks, lost
        self._joined = b""
        self.done: list[Chunk] = []

    def take(self, parts: Iterable[bytes]) -> None:
        """Add parts of the file, joined into pieces of at most ``LARGEST``."""
        for part in parts:
            self._join(part)
        self._end()

    def take_again(self, size: int, known: Sequence[Chunk]) -> None:
        """Add the whole file, cut where the known pieces are; new parts between them are joined."""
        known = list(takewhile(lambda chunk: 0 < chunk.size <= LARGEST, known))
        parts = _upto(self._file, 0, size, [chunk.size for chunk in known])
        for chunk, part in zip(known, parts, strict=False):
            if name_of(part) == chunk.name:
                self._end()
                self.done.append(self._again(part, chunk) if chunk.name in self._lost else chunk)
            else:
                self._join(part)
        self.take(parts)

    def merge(self) -> None:
        """Merge small neighbours if there are many."""
        if sum(chunk.size < SMALL for chunk in self.done) <= MANY:
            return
        before, self.done = self.done, []
        at, run = 0, list[Chunk]()
        for chunk in before:
            if chunk.size >= SMALL or at - _start(run, at) + chunk.size > LARGEST:
                self._merge(run, at)
                run = []
            if chunk.size >= SMALL:
                self.done.append(chunk)
            else:
                run.append(chunk)
            at += chunk.size
        self._merge(run, at)

    def _merge(self, run: list[Chunk], end: int) -> None:
        if len(run) < 2:
            self.done.extend(run)
        else:
            self.take(_upto(self._file, _start(run, end), end))

    def _again(self, plain: bytes, chunk: Chunk) -> Chunk:
        packed = pack(plain)
        self._chunks.put(chunk.name, packed)
        return Chunk(chunk.name, chunk.size, len(packed))

    def _join(self, part: bytes) -> None:
        if len(self._joined) + len(part) > LARGEST:
            self._end()
        self._joined += part

    def _end(self) -> None:
        plain, self._joined = self._joined, b""
        if plain:
            name, packed = name_of(plain), pack(plain)
            if not self._chunks.has(name, len(packed)):
                self._chunks.put(name, packed)
            self.done.append(Chunk(name, len(plain), len(packed)))


def _start(run: Sequence[Chunk], end: int) -> int:
    return end - sum(chunk.size for chunk in run)


def _grown(before: KeptFile, now: os.stat_result, file: IO[bytes]) -> bool:
    return (
        before.inode == now.st_ino and before.size < now.st_size and _tail(file, before.size) == before.tail
    )


def _tail(file: IO[bytes], size: int) -> str:
    start = max(0, size - TAIL)
    file.seek(start)
    return name_of(file.read(size - start))[:32]


def _upto(file: IO[bytes], start: int, end: int, cuts: Iterable[int] = ()) -> Iterator[bytes]:
    """The file between two places: cut into the sizes ``cuts``, then into the largest pieces. It may end
    earlier."""
    file.seek(start)
    at, sizes = start, iter(cuts)
    while at < end:
        part = file.read(min(next(sizes, LARGEST), end - at))
        if not part:
            return
        at += len(part)
        yield part
