"""Deletes a Claude session: its transcript, what belongs to it, and what the CLI's own lists say of it.

Two files name sessions among others: ``history.jsonl``, the prompts typed in the terminal, one a line; and
``sessions-index.json`` beside the transcripts, which some versions keep. All else in them stays as it is,
byte for byte. Links are deleted, never followed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.agents.claude import belongings
from segue.agents.reader import Stored
from segue.core.decoder import decode
from segue.core.errors import Broken

HISTORY, INDEX = "history.jsonl", "sessions-index.json"
TRIES = 20
"""So often a list is read again that a running Claude has just written to."""


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str | None = None


class _Index(msgspec.Struct, frozen=True):
    entries: list[msgspec.Raw] = []


_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def remove(stored: Stored) -> None:
    home, session = stored.home, stored.id
    if not _is_within(home, stored.path):
        raise Broken(f"session {session} is not deleted: {stored.path.parent} leads out of {home}")
    _rewrite(home / HISTORY, lambda data: _without_lines(data, session))
    _rewrite(stored.path.parent / INDEX, lambda data: _without_entry(data, session))
    for folder in belongings.folders(home, stored.path, session):
        if _is_within(home, folder):
            _clear(folder)
    for path in (*belongings.singles(home, session), belongings.log(home, session), stored.path):
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
        entries = decode(data, _Index).entries
    except _BROKEN:
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
        return decode(text, _Named).session_id == session
    except _BROKEN:
        return False
