"""Lists the native sessions of all homes.

The brief of each session is cached beside the store and read again only when the file has changed. Listing
thousands of sessions a second time costs little more than asking the file system for their sizes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from segue import __version__
from segue.agents.base import SessionArchive, StoredSession, entries_of
from segue.core.transcript import Brief, is_message
from segue.sessions.agent_homes import AgentHome
from segue.sessions.brief_workers import briefs
from segue.system.files import write_whole

FORM = f"{__version__}/2"
"""Briefs cached by another version are not used."""
EXACT = 4 * 1024 * 1024
"""In files below this size, all messages are counted if the number is shown."""
LONG_LIST = 500
"""A list of more sessions than this shows estimates, except for files that were read as a whole."""


class Listed(msgspec.Struct, frozen=True, gc=False):
    """One session: where it is, and its brief."""

    place: AgentHome
    stored: StoredSession
    brief: Brief

    @property
    def id(self) -> str:
        return self.stored.id

    @property
    def last_used_ms(self) -> int:
        known = self.brief.last_used_ms
        return known if known is not None else self.stored.changed_ns // 1_000_000


class _Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    path: str
    size: int
    changed_ns: int
    brief: Brief


class _Memory(msgspec.Struct, frozen=True):
    form: str
    rows: list[_Row]
    stamp: str = ""
    """The state of what the home stores about its sessions outside of their files."""


_decoder = msgspec.msgpack.Decoder(_Memory)


def list_sessions(places: Iterable[AgentHome], memory: Path | None = None) -> list[Listed]:
    """All sessions, most recently used first. ``memory``: the directory of the cached briefs."""
    found: dict[tuple[str, str | None, str], Listed] = {}
    for each in (each for place in places for each in _in_place(place, memory)):
        key = (each.place.agent, each.place.account, each.id)
        if key not in found or found[key].stored.changed_ns < each.stored.changed_ns:
            found[key] = each  # runners copy a session from one private home to the next
    return sorted(found.values(), key=lambda each: each.last_used_ms, reverse=True)


def count_exactly(sessions: Sequence[Listed], memory: Path | None = None) -> list[Listed]:
    """The same sessions, with messages counted instead of estimated if a session is not too large.

    Counting would make a list of thousands several times slower, so only the sessions that are shown are
    counted, and the result is cached.
    """
    if len(sessions) > LONG_LIST:
        return list(sessions)
    exact = {
        id(each): Listed(each.place, each.stored, _counted(each.place.archive, each.stored, each.brief))
        for each in sessions
        if each.brief.messages_estimated and each.stored.size < EXACT
    }
    if memory is not None and exact:
        _remember_counts(list(exact.values()), memory)
    return [exact.get(id(each), each) for each in sessions]


def _counted(reader: SessionArchive, stored: StoredSession, brief: Brief) -> Brief:
    """The brief with the number of messages instead of an estimate, if the file can be read.

    If the format allows it, they are counted without decoding everything.
    """
    try:
        messages = reader.count(stored)
        if messages is None:
            messages = sum(map(is_message, entries_of(reader, stored)))
    except OSError:
        return brief
    return msgspec.structs.replace(brief, messages=messages, messages_estimated=False)


def _remember_counts(exact: Sequence[Listed], memory: Path) -> None:
    for place in {id(each.place): each.place for each in exact}.values():
        file, stamp = _file(place, memory), place.archive.stamp(place.home)
        rows = {row.path: row for row in _remembered(file, stamp)}
        for each in exact:
            stored = each.stored
            if each.place is place and _is_known(stored, rows.get(stored.file)):
                rows[stored.file] = _Row(stored.file, stored.size, stored.changed_ns, each.brief)
        if rows:
            _remember(file, list(rows.values()), stamp)


def in_directory(sessions: Iterable[Listed], here: Path) -> Iterator[Listed]:
    """The sessions started in a directory, compared by identity; by path if theirs no longer exists."""
    wanted, path = _identity(str(here)), os.path.realpath(here)
    same: dict[str | None, bool] = {None: False}
    for each in sessions:
        cwd = each.brief.cwd
        if cwd not in same:
            found = _identity(cwd or "")
            same[cwd] = found == wanted if found is not None else os.path.realpath(cwd or "") == path
        if same[cwd]:
            yield each


def _in_place(place: AgentHome, memory: Path | None) -> list[Listed]:
    file = _file(place, memory) if memory is not None else None
    stamp = place.archive.stamp(place.home)
    known = {row.path: row for row in _remembered(file, stamp)} if file is not None else {}
    all_here = list(place.archive.stored(place.home))
    unknown = [stored for stored in all_here if not _is_known(stored, known.get(stored.file))]
    made = briefs(place.agent, place.archive, unknown)
    for stored, brief in zip(unknown, made, strict=True):
        known[stored.file] = _Row(stored.file, stored.size, stored.changed_ns, brief)
    rows = [known[stored.file] for stored in all_here]
    if file is not None and (unknown or len(rows) != len(known)):
        _remember(file, rows, stamp)
    return [
        Listed(place, stored, row.brief)
        for stored, row in zip(all_here, rows, strict=True)
        if not row.brief.side
    ]


def _is_known(stored: StoredSession, row: _Row | None) -> bool:
    return row is not None and row.changed_ns == stored.changed_ns and row.size == stored.size


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def _file(place: AgentHome, memory: Path) -> Path:
    name = sha256(os.path.realpath(place.home).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return memory / f"{place.agent}-{name}.msgpack"


def _remembered(file: Path, stamp: str) -> Sequence[_Row]:
    try:
        memory = _decoder.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return ()
    return memory.rows if (memory.form, memory.stamp) == (FORM, stamp) else ()


def _remember(file: Path, rows: list[_Row], stamp: str) -> None:
    """Write the cache. Errors are ignored: what is not cached is read again next time."""
    with suppress(OSError, UnicodeEncodeError):
        write_whole(file, msgspec.msgpack.encode(_Memory(FORM, rows, stamp)), durable=False)
