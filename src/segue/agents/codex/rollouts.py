"""Rollouts as files: what their names show, which one is current, and how they are read and written.

``sessions/Y/M/D/rollout-<time>-<thread>.jsonl``. A thread that was rolled back to an earlier turn continues
in a separate file, whose name adds an underscore and that file's id. Files that were not used for days may be
packed: ``.jsonl.zst``. Archived ones are in ``archived_sessions``, without folders for days; Codex does not
resume them there, but reads them if a fork continues one.

A forked rollout contains only its own lines. Its first line names the rollout before it, and the place in it
at which the fork begins; that rollout can be a fork too.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, NamedTuple

from segue.agents import jsonl
from segue.agents.base import StoredSession
from segue.agents.codex.schema import ForkMeta, HistoryBase, Line
from segue.agents.decoding import DAMAGE
from segue.core.errors import Misuse
from segue.core.ids import checked_uuid
from segue.core.json_values import decode
from segue.system.files import whole_file

PACKED = ".zst"
UNPACKED_BYTES = 1 << 30
"""A packed rollout is unpacked up to this size."""
_KEPT_IN_MEMORY = 1 << 23
_LONGEST_HEAD = 1 << 24
_PIECE = 1 << 10
"""How much is unpacked at once: four bytes can become 128 KB."""
_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"rollout-(?P<time>.+?)-(?P<thread>{_ID})(?:_(?P<own>{_ID}))?\.jsonl(?P<packed>\.zst)?")

ARCHIVED = "archived_sessions"
GENERATIONS = 16
"""The longest chain of rollouts that is followed."""


class Named(NamedTuple):
    """What a rollout's name shows."""

    path: str
    thread: str
    rank: tuple[bool, str, bool, bool]
    """The file with the highest rank is the current one of its thread."""


def list_rollouts(home: Path) -> Iterator[Named]:
    """All rollouts, archived ones too, by their names only."""
    for place in _files(str(home / "sessions"), 3):
        if (named := _NAME.fullmatch(place.name)) is not None:
            yield Named(place.path, named["thread"], (True, *_ranked(named)))
    for place in _files(str(home / ARCHIVED), 0):
        if (named := _NAME.fullmatch(place.name)) is not None:
            yield Named(place.path, named["thread"], (False, *_ranked(named)))


def find(home: Path, session: str | None) -> Path | None:
    """The rollout of a session; None also if the id is not valid."""
    try:
        return newest_of(home, checked_uuid(session or ""))
    except Misuse:
        return None


def newest_of(home: Path, thread: str) -> Path | None:
    """The current file of a thread; an unpacked one is preferred to a packed one, as in Codex."""
    paths = (path for path in _named(home, thread) if thread_of(path) == thread)
    return max(paths, key=_rank, default=None)


def archived(home: Path, thread: str) -> Path | None:
    """The file of a thread that was archived."""
    paths = (path for path in _named(home, thread, ARCHIVED) if thread_of(path) == thread)
    return max(paths, key=_rank, default=None)


def stored(home: Path, thread: str, path: str) -> StoredSession | None:
    """A rollout as a session; None if it is missing or not a file. A packed one never grows."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredSession(
        id=thread,
        home=home,
        file=path,
        size=status.st_size,
        changed_ns=status.st_mtime_ns,
        appends=not path.endswith(PACKED),
    )


def of_rollout(home: Path, rollout: str) -> Path | None:
    """The rollout with this id: its thread's id, unless its name has a separate one."""
    for where in ("sessions/*/*/*", ARCHIVED):
        paths = (path for path in _named(home, rollout, where) if own_of(path) == rollout)
        if (path := max(paths, key=_rank, default=None)) is not None:
            return path
    return None


def thread_of(path: Path) -> str:
    """The thread that a file belongs to; empty if its name does not show it."""
    named = _NAME.fullmatch(path.name)
    return named["thread"] if named else ""


def rollout_path(home: Path, thread: str, now: datetime) -> Path:
    """The path of a rollout that begins now."""
    return home / "sessions" / f"{now:%Y/%m/%d}" / f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{thread}.jsonl"


@contextmanager
def opened(path: Path, most: int | None = None) -> Iterator[IO[bytes]]:
    """The file for reading, unpacked if it was packed. Raises only ``OSError``."""
    if path.suffix != PACKED:
        with path.open("rb") as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(max_size=_KEPT_IN_MEMORY) as plain:
        for chunk in _unpacked(path, most or UNPACKED_BYTES):
            plain.write(chunk)
        plain.seek(0)
        yield plain


def first_line(path: Path) -> bytes:
    """The first line, up to a maximum size."""
    if path.suffix != PACKED:
        with path.open("rb") as file:
            return file.readline(_LONGEST_HEAD)
    begin = b""
    for chunk in _unpacked(path, UNPACKED_BYTES):
        begin += chunk
        if b"\n" in chunk or len(begin) > _LONGEST_HEAD:
            break
    return begin.partition(b"\n")[0]


def unpack(path: Path) -> Path:
    """Replace a packed file by the plain one, as Codex does before it continues it."""
    plain = path.with_suffix("")
    if not plain.exists():
        write_rollout(plain, _unpacked(path, UNPACKED_BYTES))
    path.unlink(missing_ok=True)
    return plain


def write_rollout(path: Path, chunks: Iterable[bytes]) -> None:
    with whole_file(path) as file:
        file.writelines(chunks)


class Part(NamedTuple):
    """A rollout as a part of a session."""

    path: Path | None
    """None: it no longer exists."""
    length: int | None
    """How many bytes of it belong to the session; None: all."""
    before: int
    """How many bytes before the session's own file it begins."""


def parts(home: Path, path: Path) -> Iterator[Part]:
    """A session's own file, then the rollouts that it continues, the nearest first."""
    yield Part(path, None, 0)
    before = 0
    for _ in range(GENERATIONS):
        base = _base(path)
        if base is None or base.end_byte_offset <= 0:
            return
        before += base.end_byte_offset
        origin = of_rollout(home, base.thread_id)
        yield Part(origin, base.end_byte_offset, before)
        if origin is None or origin == path:
            return
        path = origin


def part_lines(part: Part, start: int | None = None) -> Iterator[jsonl.Line]:
    """The lines of a part from a place on, each at its place in the session."""
    if part.path is None:
        return
    with opened(part.path) as file:
        for line in jsonl.forwards(file, 0 if start is None else max(0, start + part.before)):
            if part.length is not None and line.start >= part.length:
                return
            yield line._replace(start=line.start - part.before, next=line.next - part.before)


def part_lines_back(part: Part, end: int) -> Iterator[jsonl.Line]:
    """The lines of a part before a place, the last one first."""
    if part.path is None:
        return
    with opened(part.path) as file:
        at = end + part.before
        for line in jsonl.backwards(file, at if part.length is None else min(part.length, at)):
            yield line._replace(start=line.start - part.before, next=line.next - part.before)


def origin_of(path: Path) -> str | None:
    """The id of the rollout that this one continues."""
    base = _base(path)
    return base.thread_id if base is not None else None


def _base(path: Path) -> HistoryBase | None:
    """The reference to the previous rollout, from the first line."""
    try:
        first = first_line(path)
        named = b'"history_base"' in first
        return decode(decode(first, Line).payload, ForkMeta).history_base if named else None
    except (OSError, *DAMAGE):
        return None


def _named(home: Path, some_id: str, where: str = "sessions/*/*/*") -> Iterator[Path]:
    if not re.fullmatch(_ID, some_id):
        return iter(())
    return home.glob(f"{where}/rollout-*{some_id}*.jsonl*")


def _files(folder: str, depth: int) -> Iterator[os.DirEntry[str]]:
    """The entries at a depth of subfolders. Unreadable folders are skipped."""
    try:
        with os.scandir(folder) as listing:
            places = list(listing)
    except OSError:
        return
    for place in places:
        if depth:
            yield from _files(place.path, depth - 1)
        else:
            yield place


def own_of(path: Path) -> str:
    """The id of a file itself; empty if its name does not show it."""
    named = _NAME.fullmatch(path.name)
    return (named["own"] or named["thread"]) if named else ""


def _rank(path: Path) -> tuple[str, bool, bool]:
    named = _NAME.fullmatch(path.name)
    return _ranked(named) if named else ("", False, False)


def _ranked(named: re.Match[str]) -> tuple[str, bool, bool]:
    return named["time"], named["own"] is not None, named["packed"] is None


def _unpacked(path: Path, most: int) -> Iterator[bytes]:
    """The content, piece by piece. A truncated file is an error, so that nothing is lost silently."""
    import zstandard

    unpacker, size = zstandard.ZstdDecompressor(), 0
    frame = unpacker.decompressobj()
    try:
        with path.open("rb") as packed:
            while piece := frame.unused_data or packed.read(_PIECE):
                frame = unpacker.decompressobj() if frame.eof else frame
                plain = frame.decompress(piece)
                size += len(plain)
                if size > most:
                    raise OSError(f"{path.name} is too large to unpack")
                yield plain
    except zstandard.ZstdError as error:
        raise OSError(f"{path.name} cannot be unpacked: {error}") from error
    if not frame.eof:
        raise OSError(f"{path.name} is truncated")
