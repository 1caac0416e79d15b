"""Claude's sessions, for those who only look: ``<home>/projects/<folder>/<id>.jsonl``, one record a line.

Files named otherwise are none: ``agent-*.jsonl`` beside a session (older versions) or in its own folder
(newer ones) are the transcripts of its subagents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.claude import belongings, brief, lines
from segue.agents.claude.prompts import counted_in
from segue.agents.reader import Allowance, Lines, Stored
from segue.core.errors import Misuse
from segue.core.keys import uuid
from segue.core.transcript import Brief, Entry

SUFFIX, DAY_MS, KEPT_DAYS = ".jsonl", 86_400_000, 30
_LENGTH = 36 + len(SUFFIX)
_is_id = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch


class ClaudeReader(Lines):
    """A session that lies in several folders is the one that changed last, as for the CLI's own list."""

    # 2.1.50 keeps 20,000 tokens free for the answer and compacts 13,000 before that: 167k of 200k.
    allowance = Allowance(
        reserved=20_000, compacts_at=1.0, margin=13_000, window=200_000, tried=("2.1.50", "2.1.325")
    )

    def stored(self, home: Path) -> Iterator[Stored]:
        newest: dict[str, tuple[int, int, str]] = {}
        for folder in _folders(home):
            for session, path in _sessions(folder):
                seen = _stat(path)
                if seen is not None and (session not in newest or newest[session][:2] < seen):
                    newest[session] = (*seen, path)
        for session, (changed, size, path) in newest.items():
            yield Stored(id=session, home=home, file=path, size=size, changed_ns=changed)

    def find(self, home: Path, session: str) -> Stored | None:
        try:
            name = f"{uuid(session)}{SUFFIX}"
        except Misuse:
            return None
        found = ((_stat(path), path) for path in (os.path.join(at, name) for at in _folders(home)))
        there = [(*seen, path) for seen, path in found if seen is not None]
        if not there:
            return None
        changed, size, path = max(there)
        return Stored(id=name[: -len(SUFFIX)], home=home, file=path, size=size, changed_ns=changed)

    def brief(self, stored: Stored) -> Brief:
        return brief.brief(stored)

    def count(self, stored: Stored) -> int:
        """All messages, found by searching for bytes: five times as fast as to decode them."""
        with open(stored.file, "rb", buffering=0) as file:
            return counted_in(file.read())

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return lines.entries(text, start)

    def side(self, stored: Stored) -> Sequence[Stored]:
        found = []
        for path in belongings.subagents(stored.path, stored.id):
            seen = _stat(str(path))
            if seen is not None:
                changed, size = seen
                found.append(
                    Stored(id=path.stem, home=stored.home, file=str(path), size=size, changed_ns=changed)
                )
        return sorted(found, key=lambda each: each.changed_ns)

    def files(self, stored: Stored) -> Sequence[Path]:
        found = [stored.path]
        for folder in belongings.folders(stored.home, stored.path, stored.id):
            found += belongings.within(folder)
        return [*found, *belongings.singles(stored.home, stored.id)]

    def expires_ms(self, stored: Stored, brief: Brief) -> int | None:
        """By the file's own time, as the CLI does at its start."""
        return stored.changed_ns // 1_000_000 + round(_kept_days(stored.home) * DAY_MS)


def _folders(home: Path) -> list[str]:
    try:
        with os.scandir(home / "projects") as found:
            return [entry.path for entry in found if not entry.name.startswith(".")]
    except OSError:
        return []


def _sessions(folder: str) -> Iterator[tuple[str, str]]:
    """Ids and paths, by their names."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                name = entry.name
                if len(name) == _LENGTH and name.endswith(SUFFIX) and _is_id(name[: -len(SUFFIX)]):
                    yield name[: -len(SUFFIX)], entry.path
    except OSError:
        return


def _stat(path: str) -> tuple[int, int] | None:
    """When it changed and its size; None for what is gone or no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found.st_mode & 0o170000 == 0o100000 else None


def _kept_days(home: Path) -> float:
    try:
        days: Any = msgspec.json.decode((home / "settings.json").read_bytes()).get("cleanupPeriodDays")
    except (OSError, AttributeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        days = None
    return days if isinstance(days, int | float) and not isinstance(days, bool) else KEPT_DAYS


READER = ClaudeReader()
