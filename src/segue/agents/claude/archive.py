"""Claude's sessions on disk: found, read and deleted, with everything that belongs to them.

``projects/<folder>/<id>.jsonl`` is a session. ``agent-*.jsonl`` beside a session (older versions) or in its
own folder (newer ones) are the transcripts of its subagents. Its own folder, ``projects/<folder>/<id>/``,
also contains long tool output and the title; ``file-history``, ``tasks``, ``session-env`` and ``todos``
contain what their names say, by the session's id. A debug log is not part of the session, but is deleted
with it.

Two files name several sessions: ``history.jsonl``, the prompts typed in the terminal, one per line; and
``sessions-index.json`` beside the transcripts, which some versions keep. When a session is deleted, the rest
of them stays the same, byte for byte. Links are deleted, never followed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession, WindowRules
from segue.agents.claude.brief import brief
from segue.agents.claude.entries import entries
from segue.agents.claude.prompts import count_all_messages
from segue.agents.claude.schema import HistoryLine, SessionIndex, UserSettings
from segue.agents.decoding import DAMAGE
from segue.agents.jsonl import JsonlArchive
from segue.core.errors import Broken
from segue.core.json_values import as_number, decode
from segue.core.transcript import Brief, Entry
from segue.system.files import whole_file

SUFFIX = ".jsonl"
DAY_MS, KEPT_DAYS = 86_400_000, 30
HISTORY, INDEX = "history.jsonl", "sessions-index.json"
TRIES = 20
"""How often a list is read again if a running Claude has just written to it."""
_LENGTH = 36 + len(SUFFIX)
_is_id = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch


class ClaudeArchive(JsonlArchive):
    """If a session is in several folders, the copy that changed last counts, as in the CLI's own list."""

    # 2.1.50 keeps 20,000 tokens free for the answer and compacts 13,000 before that: 167k of 200k.
    window_rules = WindowRules(
        reserved=20_000, compacts_at=1.0, margin=13_000, window=200_000, tried=("2.1.50", "2.1.325")
    )

    def stored(self, home: Path) -> Iterator[StoredSession]:
        newest: dict[str, tuple[int, int, str]] = {}
        for folder in _projects(home):
            for session, path in _sessions(folder):
                state = _state(path)
                if state is not None and (session not in newest or newest[session][:2] < state):
                    newest[session] = (*state, path)
        for session, (changed, size, path) in newest.items():
            yield StoredSession(id=session, home=home, file=path, size=size, changed_ns=changed)

    def brief(self, stored: StoredSession) -> Brief:
        return brief(stored)

    def count(self, stored: StoredSession) -> int | None:
        """All messages, found by searching for bytes: five times as fast as decoding them."""
        with open(stored.file, "rb", buffering=0) as file:
            return count_all_messages(file.read())

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        return entries(text, start)

    def side(self, stored: StoredSession) -> Sequence[StoredSession]:
        """Only of newer versions: older ones write them into the session's own file."""
        transcripts = []
        for path in (stored.path.parent / stored.id / "subagents").glob("agent-*.jsonl"):
            state = _state(str(path))
            if state is not None:
                transcripts.append(
                    StoredSession(
                        id=path.stem, home=stored.home, file=str(path), changed_ns=state[0], size=state[1]
                    )
                )
        return sorted(transcripts, key=lambda each: each.changed_ns)

    def files(self, stored: StoredSession) -> Sequence[Path]:
        within = [path for folder in _own_folders(stored) for path in _files_within(folder)]
        return [stored.path, *within, *_todos(stored)]

    def expires_ms(self, stored: StoredSession, brief: Brief) -> int | None:
        """By the file's modification time, like the CLI when it starts."""
        return stored.changed_ns // 1_000_000 + round(_kept_days(stored.home, int(time.monotonic())) * DAY_MS)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        from segue.agents.claude.repair import repair  # a list starts faster without it

        return repair(stored, new_id, options)

    def remove(self, stored: StoredSession) -> None:
        home, session = stored.home, stored.id
        if not _is_within(home, stored.path):
            where = f"{stored.path.parent} leads outside {home} through a link"
            raise Broken(f"session {session} is not deleted: {where}")
        _rewrite(home / HISTORY, lambda data: _without_lines(data, session))
        _rewrite(stored.path.parent / INDEX, lambda data: _without_entry(data, session))
        for folder in _own_folders(stored):
            if _is_within(home, folder):
                _clear(folder)
        for path in (*_todos(stored), home / "debug" / f"{session}.txt", stored.path):
            if _is_within(home, path):
                _unlink(path)


ARCHIVE = ClaudeArchive()


def _projects(home: Path) -> list[str]:
    try:
        with os.scandir(home / "projects") as places:
            return [place.path for place in places if not place.name.startswith(".")]
    except OSError:
        return []


def _sessions(folder: str) -> Iterator[tuple[str, str]]:
    """The ids and paths of the sessions in a folder, by file name."""
    try:
        with os.scandir(folder) as places:
            for place in places:
                name = place.name
                if len(name) == _LENGTH and name.endswith(SUFFIX) and _is_id(name[: -len(SUFFIX)]):
                    yield name[: -len(SUFFIX)], place.path
    except OSError:
        return


def _state(path: str) -> tuple[int, int] | None:
    """Modification time and size; None if it is missing or not a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _own_folders(stored: StoredSession) -> Iterator[Path]:
    """The directories that belong to this session alone, whether they exist or not."""
    yield stored.path.parent / stored.id
    for name in ("file-history", "tasks", "session-env"):
        yield stored.home / name / stored.id


def _files_within(folder: Path) -> Iterator[Path]:
    """All files below a directory; links are not followed."""
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in sorted(names))


def _todos(stored: StoredSession) -> Iterator[Path]:
    folder = stored.home / "todos"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    yield from (folder / name for name in names if name.startswith(f"{stored.id}-agent-"))


@lru_cache(maxsize=64)
def _kept_days(home: Path, second: int) -> float:
    """Read at most once a second, because it is needed for every session of a home."""
    try:
        settings = decode((home / "settings.json").read_bytes(), UserSettings)
    except (OSError, *DAMAGE):
        return KEPT_DAYS
    days = as_number(settings.cleanup_period_days)
    return days if days is not None else KEPT_DAYS


def _is_within(home: Path, path: Path) -> bool:
    """Whether its directory is really inside the home, with all links resolved."""
    root = os.path.realpath(home)
    return os.path.commonpath([root, os.path.realpath(path.parent)]) == root


def _unlink(path: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        path.unlink()


def _clear(folder: Path) -> None:
    import shutil

    if folder.is_symlink():
        _unlink(folder)
    elif folder.is_dir():
        shutil.rmtree(folder)


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Write only if something changes. If the list keeps changing, give up: a leftover entry does no harm, a
    lost one does."""
    for _ in range(TRIES):
        try:
            seen = path.lstat()
            data = path.read_bytes()
        except OSError:
            return
        changed = change(data)
        if changed == data or stat.S_ISLNK(seen.st_mode) or _replace(path, changed, seen):
            return


def _replace(path: Path, data: bytes, seen: os.stat_result) -> bool:
    """Replace the file, unless it was written to since it was read. Return whether it was replaced."""
    stale = False

    def is_stale() -> bool:
        nonlocal stale
        stale = not path.exists() or _version(path.lstat()) != _version(seen)
        return stale

    with whole_file(path, unless=is_stale) as file:
        os.fchmod(file.fileno(), seen.st_mode & 0o777)
        file.write(data)
    return not stale


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _without_lines(data: bytes, session: str) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if session.encode() not in line or not _names(line, session))


def _without_entry(data: bytes, session: str) -> bytes:
    """The index without the session's entry and the comma beside it."""
    try:
        index = decode(data, SessionIndex)
    except DAMAGE:
        return data
    for entry in index.entries:
        if _names(bytes(entry), session):
            before, _, after = data.partition(bytes(entry))
            rest = after.lstrip()
            if rest.startswith(b","):
                return before + rest[1:].lstrip()
            trimmed = before.rstrip()
            return (trimmed[:-1] if trimmed.endswith(b",") else before) + after
    return data


def _names(text: bytes, session: str) -> bool:
    try:
        return decode(text, HistoryLine).session_id == session
    except DAMAGE:
        return False
