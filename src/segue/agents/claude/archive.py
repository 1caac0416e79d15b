"""Where Claude keeps what belongs to a session, apart from its transcript.

``projects/<folder>/<id>/`` holds subagents' transcripts, long tool output and the title; ``file-history``,
``tasks``, ``session-env`` and ``todos`` hold what their names say, by the session's id. A debug log is no
part of the session, but goes with it.

Claude's sessions, for those who only look: ``<home>/projects/<folder>/<id>.jsonl``, one record a line.

Files named otherwise are none: ``agent-*.jsonl`` beside a session (older versions) or in its own folder
(newer ones) are the transcripts of its subagents.

Deletes a Claude session: its transcript, what belongs to it, and what the CLI's own lists say of it.

Two files name sessions among others: ``history.jsonl``, the prompts typed in the terminal, one a line; and
``sessions-index.json`` beside the transcripts, which some versions keep. All else in them stays as it is,
byte for byte. Links are deleted, never followed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession, WindowRules
from segue.agents.claude import brief
from segue.agents.claude.entries import entries
from segue.agents.claude.prompts import count_all_messages
from segue.agents.claude.schema import DAMAGE, HistoryLine, SessionIndex
from segue.agents.jsonl import JsonlArchive
from segue.core.errors import Broken
from segue.core.json_values import decode
from segue.core.transcript import Brief, Entry

BESIDE = ("file-history", "tasks", "session-env")


def folders(home: Path, transcript: Path, session: str) -> Iterator[Path]:
    """The directories that belong to one session alone, whether they are there or not."""
    yield transcript.parent / session
    for name in BESIDE:
        yield home / name / session


def subagents(transcript: Path, session: str) -> Iterator[Path]:
    """Their transcripts; older versions write them into the session's own file."""
    return (transcript.parent / session / "subagents").glob("agent-*.jsonl")


def singles(home: Path, session: str) -> Iterator[Path]:
    """The single files that bear its id."""
    todos = home / "todos"
    try:
        names = sorted(os.listdir(todos))
    except OSError:
        return
    yield from (todos / name for name in names if name.startswith(f"{session}-agent-"))


def debug_log(home: Path, session: str) -> Path:
    return home / "debug" / f"{session}.txt"


def files_within(folder: Path) -> Iterator[Path]:
    """All files below a directory; links are not followed."""
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in sorted(names))


SUFFIX, DAY_MS, KEPT_DAYS = ".jsonl", 86_400_000, 30
_LENGTH = 36 + len(SUFFIX)
_is_id = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch


class ClaudeArchive(JsonlArchive):
    """A session that lies in several folders is the one that changed last, as for the CLI's own list."""

    # 2.1.50 keeps 20,000 tokens free for the answer and compacts 13,000 before that: 167k of 200k.
    window_rules = WindowRules(
        reserved=20_000, compacts_at=1.0, margin=13_000, window=200_000, tried=("2.1.50", "2.1.325")
    )

    def stored(self, home: Path) -> Iterator[StoredSession]:
        newest: dict[str, tuple[int, int, str]] = {}
        for folder in _folders(home):
            for session, path in _sessions(folder):
                seen = _stat(path)
                if seen is not None and (session not in newest or newest[session][:2] < seen):
                    newest[session] = (*seen, path)
        for session, (changed, size, path) in newest.items():
            yield StoredSession(id=session, home=home, file=path, size=size, changed_ns=changed)

    def brief(self, stored: StoredSession) -> Brief:
        return brief.brief(stored)

    def count(self, stored: StoredSession) -> int | None:
        """All messages, found by searching for bytes: five times as fast as to decode them."""
        with open(stored.file, "rb", buffering=0) as file:
            return count_all_messages(file.read())

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return entries(text, start)

    def side(self, stored: StoredSession) -> Sequence[StoredSession]:
        found = []
        for path in subagents(stored.path, stored.id):
            seen = _stat(str(path))
            if seen is not None:
                changed, size = seen
                found.append(
                    StoredSession(
                        id=path.stem, home=stored.home, file=str(path), size=size, changed_ns=changed
                    )
                )
        return sorted(found, key=lambda each: each.changed_ns)

    def files(self, stored: StoredSession) -> Sequence[Path]:
        found = [stored.path]
        for folder in folders(stored.home, stored.path, stored.id):
            found += files_within(folder)
        return [*found, *singles(stored.home, stored.id)]

    def expires_ms(self, stored: StoredSession, brief: Brief) -> int | None:
        """By the file's own time, as the CLI does at its start."""
        return stored.changed_ns // 1_000_000 + round(_kept_days(stored.home) * DAY_MS)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        from segue.agents.claude.repair import repair  # a list does not need it, and starts faster without

        return repair(stored, new_id, options)

    def remove(self, stored: StoredSession) -> None:
        remove(stored)


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


ARCHIVE = ClaudeArchive()


HISTORY, INDEX = "history.jsonl", "sessions-index.json"
TRIES = 20
"""So often a list is read again that a running Claude has just written to."""


def remove(stored: StoredSession) -> None:
    home, session = stored.home, stored.id
    if not _is_within(home, stored.path):
        raise Broken(f"session {session} is not deleted: {stored.path.parent} leads out of {home}")
    _rewrite(home / HISTORY, lambda data: _without_lines(data, session))
    _rewrite(stored.path.parent / INDEX, lambda data: _without_entry(data, session))
    for folder in folders(home, stored.path, session):
        if _is_within(home, folder):
            _clear(folder)
    for path in (*singles(home, session), debug_log(home, session), stored.path):
        if _is_within(home, path):
            _unlink(path)


def _is_within(home: Path, path: Path) -> bool:
    """Whether its directory really lies in the home, whatever links there are on the way."""
    root = os.path.realpath(home)
    return os.path.commonpath([root, os.path.realpath(path.parent)]) == root


def _unlink(path: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()


def _clear(folder: Path) -> None:
    if folder.is_symlink():
        _unlink(folder)
    elif folder.is_dir():
        shutil.rmtree(folder)


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Whole or not at all, and only where something changes. A list that never rests stays as it is: an entry
    too many is no harm, a lost one is."""
    for _ in range(TRIES):
        try:
            seen = path.lstat()
            data = path.read_bytes()
        except OSError:
            return
        changed = change(data)
        if changed == data or stat.S_ISLNK(seen.st_mode) or _put(path, changed, seen):
            return


def _put(path: Path, data: bytes, seen: os.stat_result) -> bool:
    """Unless somebody has written to it since it was seen."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        beside.chmod(seen.st_mode & 0o777)
        if not path.exists() or _state(path.lstat()) != _state(seen):
            return False
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)
    return True


def _state(seen: os.stat_result) -> tuple[int, int, int]:
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _without_lines(data: bytes, session: str) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if session.encode() not in line or not _names(line, session))


def _without_entry(data: bytes, session: str) -> bytes:
    """The entry is cut out with one comma beside it."""
    try:
        entries = decode(data, SessionIndex).entries
    except DAMAGE:
        return data
    for entry in entries:
        if _names(bytes(entry), session):
            before, _, after = data.partition(bytes(entry))
            rest = after.lstrip()
            if rest.startswith(b","):
                return before + rest[1:].lstrip()
            kept = before.rstrip()
            return (kept[:-1] if kept.endswith(b",") else before) + after
    return data


def _names(text: bytes, session: str) -> bool:
    try:
        return decode(text, HistoryLine).session_id == session
    except DAMAGE:
        return False
