"""Codex's session format: where a session ends, a copy that ends earlier, and what a resume needs mended.

A branch is a copy of the rollout's lines under a new id; Codex needs nothing else to resume it. Rollouts that
were forked by Codex itself hold only their own lines, and name the file and the place they go on from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from segue.agents.base import Found, Mended, Mending
from segue.agents.codex import anchors, files, rollout
from segue.agents.codex.ancestry import ancestry
from segue.agents.codex.anchors import Place
from segue.agents.codex.lines import forwards, last_record, read
from segue.agents.codex.login import fingerprint
from segue.core.keys import uuid
from segue.core.request import Request, Runtime, Start

if TYPE_CHECKING:
    from segue.agents.behind import Behind
    from segue.agents.reader import Stored

PAGED, UNPAGED = b'"history_mode":"paginated"', b'"history_mode":"legacy"   '
"""Of one length, so that every place stays."""
_BASE = re.compile(rb'("history_base"\s*:\s*\{[^{}]*\})')


class CodexSessions:
    """Rollouts, found by their thread's id under the home."""

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        path = rollout.find(home, session)
        if path is None:
            return None
        try:
            with files.opened(path) as file:
                end = anchors.at_end(file, files.thread_of(path))
                return Found(path, file.seek(0, 2), end)
        except OSError:
            return _unreadable(path)

    def cut(
        self,
        found: Found,
        session: str,
        anchor: str,
        new_id: str,
        request: Request,
        home: Path,
        runtime: Runtime,
    ) -> Start | None:
        target = files.place(home, uuid(new_id), datetime.now())
        try:
            for path, end in ancestry(home, found.path):
                with files.opened(path) as file:
                    place = anchors.locate(file, files.thread_of(path), anchor)
                    if place is not None and (end is None or place.offset <= end):
                        files.write(target, _copied(file, place, files.thread_of(path), uuid(new_id)))
                        return Start("resume", new_id)
        except OSError:
            return None
        return None

    def continues(self, found: Found, anchor: str) -> bool:
        """Exactly one turn follows the anchor, with those that Codex began out of it by itself."""
        try:
            with files.opened(found.path) as file:
                place = anchors.locate(file, files.thread_of(found.path), anchor)
                return place is not None and len(_roots(file, place)) == 1
        except OSError:
            return False

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """Old versions cannot read what new ones packed, and add to a line that was not finished; new ones
        refuse a rollout with numbered lines to which an old one added some without a number."""
        with suppress(OSError):
            packed = found.path.suffix == files.PACKED
            path = files.unpack(found.path) if packed else found.path
            with path.open("r+b") as file:
                _end_last_line(file)
                _stop_numbering(file)

    def behind(self, anchor: str) -> Behind:
        """An anchor is the number of bytes before it."""
        from segue.agents.behind import Behind

        offset = int(anchor.split(":")[0])
        return Behind(lambda entry: int(entry.id.split(".")[0]) < offset)

    def repair(self, stored: Stored, new_id: str, mending: Mending) -> Mended:
        from segue.agents.codex.repairing import repair

        return repair(stored, new_id, mending)

    def remove(self, stored: Stored) -> None:
        from segue.agents.codex.removing import remove

        remove(stored)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return fingerprint(home / "auth.json")


def _unreadable(path: Path) -> Found | None:
    try:
        return Found(path, path.stat().st_size, None)
    except OSError:
        return None


def _copied(file: IO[bytes], place: Place, thread: str, new_id: str) -> Iterator[bytes]:
    """The lines up to a place, as those of another thread, each at the place it had."""
    last = read(place.line)
    numbered = last is not None and last.numbered
    for number, (offset, line) in enumerate(forwards(file, 0)):
        if offset > place.offset:
            return
        if number:
            yield anchors.renamed(line, thread, new_id) + b"\n"
        else:
            yield _head_renamed(line if numbered else line.replace(PAGED, UNPAGED), thread, new_id) + b"\n"


def _head_renamed(line: bytes, thread: str, new_id: str) -> bytes:
    """The first line; what names the rollout it goes on from stays, even if that was the same thread."""
    parts = _BASE.split(line)
    parts[::2] = [anchors.renamed(part, thread, new_id) for part in parts[::2]]
    return b"".join(parts)


def _roots(file: IO[bytes], place: Place) -> set[str]:
    """The turns that began after a place; at most two of them, which is one too many."""
    roots: set[str] = set()
    for _, line in forwards(file, place.offset):
        record = read(line) if b'"task_started"' in line else None
        if record is not None and record.kind == "task_started":
            roots.add(record.root)
            if len(roots) > 1:
                break
    return roots


def _end_last_line(file: IO[bytes]) -> None:
    if file.seek(0, 2) == 0:
        return
    file.seek(-1, 2)
    if file.read(1) != b"\n":
        file.write(b"\n")


def _stop_numbering(file: IO[bytes]) -> None:
    file.seek(0)
    at = file.readline().find(PAGED)
    last = last_record(file) if at >= 0 else None
    if last is not None and not last.numbered:
        file.seek(at)
        file.write(UNPAGED)


SESSIONS = CodexSessions()
