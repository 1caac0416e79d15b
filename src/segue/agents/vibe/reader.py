"""Vibe's sessions, for those who only look: the directories of 2.x and the stores of 3.x.

3.x takes a directory of 2.x in when it is asked to resume it. Both are then there and both can be resumed,
the old one by 2.x; the new one names the old one its parent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from segue.agents.reader import Allowance, Lines, Reader, Record, Stored
from segue.agents.vibe import brief, folder, lines, meta, plugins, store, unified_brief, walking
from segue.core.errors import Misuse
from segue.core.keys import native_id
from segue.core.transcript import Brief, Entry

PREFIX = "session_"


class VibeReader(Lines):
    allowance = Allowance(reserved=4096, compacts_at=0.8, window=250_000, tried=("2.18.4", "3.0.2"))
    """3.x keeps ``output_token_reserve`` free and compacts at 80 % of a window that the model's settings
    declare; without one, as 2.x always, at 200,000 tokens."""

    def stored(self, home: Path) -> Iterator[Stored]:
        root = folder.root(home)
        for item in _listed(root):
            if item.name.startswith(PREFIX):
                found = _folder(home, item.path)
                if found is not None:
                    yield found
        for item in _listed(root / store.STORES):
            found = None if item.name.startswith(".") else _store(home, item.path)
            if found is not None:
                yield found

    def find(self, home: Path, session: str) -> Stored | None:
        try:
            found = _store(home, str(folder.root(home) / store.STORES / native_id(session)))
        except Misuse:
            return None
        if found is not None:
            return found
        path = folder.find(home, session)
        return _folder(home, str(path)) if path is not None else None

    def brief(self, stored: Stored) -> Brief:
        return unified_brief.brief(stored) if store.is_store(stored.path) else brief.brief(stored)

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return lines.entries(text, start)

    def opened(self, stored: Stored) -> AbstractContextManager[IO[bytes]]:
        return (stored.path / folder.MESSAGES).open("rb")

    def read(self, stored: Stored, start: int = 0) -> Iterator[Record]:
        return walking.forwards(stored.path) if store.is_store(stored.path) else super().read(stored, start)

    def back(self, stored: Stored, end: int | None = None) -> Iterator[Record]:
        return (
            walking.backwards(stored.path, end) if store.is_store(stored.path) else super().back(stored, end)
        )

    def files(self, stored: Stored) -> Sequence[Path]:
        """Of a store the newest generation only (the older ones are Vibe's own way back), and its plugins."""
        if not store.is_store(stored.path):
            return tuple(_files(stored.path))
        try:
            newest = store.opened(stored.path)
        except store.ERRORS:
            return tuple(_files(stored.path))
        named = newest.manifest
        digests = {
            digest
            for part in (named.checkpoint, named.projection_state, named.runtime_state)
            for digest in part.chunks or ()
        }
        wanted = [
            *(path for path in stored.path.iterdir() if path.is_file()),
            *_files(Path(newest.generation)),
            *(Path(newest.chunk(digest)) for digest in sorted(digests)),
            *([Path(newest.journal)] if newest.journal is not None else ()),
            *plugins.files(stored.home, newest, stored.id),
        ]
        return tuple(path for path in wanted if path.is_file())

    def expires_ms(self, stored: Stored, brief: Brief) -> int | None:
        """Neither version ever takes a session away."""
        return None


READER: Reader = VibeReader()


def _listed(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            yield from listing
    except OSError:
        return


def _folder(home: Path, path: str) -> Stored | None:
    try:
        messages = os.stat(f"{path}/{folder.MESSAGES}")
    except OSError:
        return None
    if not stat.S_ISREG(messages.st_mode):
        return None
    changed = max(messages.st_mtime_ns, _changed(f"{path}/{folder.META}"))
    session = meta.session_id(path, path[-8:])
    return Stored(id=session, home=home, file=path, size=messages.st_size, changed_ns=changed)


def _store(home: Path, path: str) -> Stored | None:
    """Its messages, what is shown of them, and the journal; the rest is small and does not grow with them."""
    try:
        current = os.stat(f"{path}/{store.CURRENT}")
    except OSError:
        return None
    size, changed = 0, max(current.st_mtime_ns, _changed(f"{path}/{folder.META}"))
    for name in ("chunks", "journal"):
        for item in _listed(Path(path, name)):
            try:
                found = item.stat()
            except OSError:
                continue
            size += found.st_size
            changed = max(changed, found.st_mtime_ns) if name == "journal" and found.st_size else changed
    session = os.path.basename(path)
    return Stored(id=session, home=home, file=path, size=size, changed_ns=changed, appends=False)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _files(path: Path) -> Iterator[Path]:
    for where, _, names in os.walk(path):
        yield from (Path(where, name) for name in sorted(names))
