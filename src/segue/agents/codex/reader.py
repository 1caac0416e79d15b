"""Codex's sessions, for those who only look: one for each thread, the file in which it goes on.

A fork goes on from another rollout, which holds what came before. Those lines are shown too: their places
are below zero, counted back from the beginning of the session's own file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from segue.agents.codex import files, names
from segue.agents.codex.ancestry import GENERATIONS, base
from segue.agents.codex.brief import brief
from segue.agents.codex.entries import entries
from segue.agents.reader import Allowance, Lines, Reader, Record, Stored, damaged
from segue.agents.records import backwards, forwards
from segue.core.transcript import Brief, Entry


class CodexReader(Lines):
    allowance = Allowance(reserved=0, compacts_at=0.947, window=258_400, tried=("0.104.0", "0.166.0"))
    """Codex tells a window of which 5 % were kept free for the answer already, and compacts at 90 % of the
    whole one: 0.9 / 0.95. The window is that of models it knows nothing of: 272,000 tokens less 5 %."""

    def stored(self, home: Path) -> Iterator[Stored]:
        newest: dict[str, files.Named] = {}
        for named in files.listed(home):
            known = newest.get(named.thread)
            if known is None or named.rank > known.rank:
                newest[named.thread] = named
        for named in newest.values():
            found = _stored(home, named)
            if found is not None:
                yield found

    def find(self, home: Path, session: str) -> Stored | None:
        of_it = (named for named in files.listed(home) if named.thread == session)
        newest = max(of_it, key=lambda named: named.rank, default=None)
        return _stored(home, newest) if newest is not None else None

    def brief(self, stored: Stored) -> Brief:
        return brief(stored)

    def stamp(self, home: Path) -> str:
        """Names stand in an index beside the sessions: what was remembered holds while that is the same."""
        try:
            found = os.stat(home / names.INDEX)
        except OSError:
            return ""
        return f"{found.st_mtime_ns}/{found.st_size}"

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return entries(text, start)

    def opened(self, stored: Stored) -> AbstractContextManager[IO[bytes]]:
        return files.opened(stored.path)

    def read(self, stored: Stored, start: int = 0) -> Iterator[Record]:
        if start <= 0:
            for path, end, before in reversed(_origins(stored)):
                if not start or start < end - before:
                    yield from self._part(path, end, before, start or -before)
        yield from super().read(stored, max(start, 0))

    def back(self, stored: Stored, end: int | None = None) -> Iterator[Record]:
        if end is None or end > 0:
            yield from super().back(stored, end)
        place = 0 if end is None else min(end, 0)
        for path, length, before in _origins(stored):
            if place > -before:
                yield from self._part_back(path, length, before, place)

    def files(self, stored: Stored) -> Sequence[Path]:
        """The rollout, and those it goes on from: without them Codex does not resume it."""
        return (stored.path, *(path for path, _, _ in _origins(stored) if path is not None))

    def expires_ms(self, stored: Stored, brief: Brief) -> int | None:
        """Codex packs what has not been used for days, but takes no session away."""
        return None

    def _part(self, path: Path | None, length: int, before: int, start: int) -> Iterator[Record]:
        """The lines of a rollout that comes before, from a place on."""
        if path is None:
            yield _missing(before)
            return
        try:
            with files.opened(path) as file:
                for line in forwards(file, max(0, start + before)):
                    if line.start >= length:
                        return
                    yield self._record(line.start - before, line.next - before, line.text)
        except OSError as error:
            yield Record(-before, length - before, (damaged(-before, f"it cannot be read: {error}"),))

    def _part_back(self, path: Path | None, length: int, before: int, end: int) -> Iterator[Record]:
        if path is None:
            yield _missing(before)
            return
        try:
            with files.opened(path) as file:
                for line in backwards(file, min(length, end + before)):
                    yield self._record(line.start - before, line.next - before, line.text)
        except OSError as error:
            yield Record(-before, length - before, (damaged(-before, f"it cannot be read: {error}"),))


READER: Reader = CodexReader()


def _stored(home: Path, named: files.Named) -> Stored | None:
    try:
        found = os.stat(named.path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Stored(
        id=named.thread,
        home=home,
        file=named.path,
        size=found.st_size,
        changed_ns=found.st_mtime_ns,
        appends=not named.path.endswith(files.PACKED),
    )


def _origins(stored: Stored) -> list[tuple[Path | None, int, int]]:
    """The rollouts before this one, the nearest first: each with its length, and how far before the
    beginning of this one it begins. No path: it is gone."""
    found: list[tuple[Path | None, int, int]] = []
    path, before = stored.path, 0
    for _ in range(GENERATIONS):
        try:
            origin = base(path)
        except OSError:
            break
        if origin is None or origin.end_byte_offset <= 0:
            break
        before += origin.end_byte_offset
        parent = files.of_rollout(stored.home, origin.thread_id)
        found.append((parent, origin.end_byte_offset, before))
        if parent is None or parent == path:
            break
        path = parent
    return found


def _missing(before: int) -> Record:
    why = "what came before stands in a session that is gone"
    return Record(-before, -before + 1, (damaged(-before, why),))
