"""Gemini's sessions on disk: listed, read and deleted, and when its own clean-up will delete them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from segue.agents.base import (
    Record,
    RepairedCopy,
    RepairOptions,
    SessionArchive,
    StoredSession,
    WindowRules,
)
from segue.agents.gemini import brief, files, walk
from segue.agents.gemini.files import SECOND_NAME, folders, short_id
from segue.agents.jsonl import unreadable
from segue.core.json_values import as_table, as_whole
from segue.core.transcript import Brief
from segue.system.files import write_whole

_HOUR = 3_600_000
_UNITS = {"h": _HOUR, "d": 24 * _HOUR, "w": 7 * 24 * _HOUR, "m": 30 * 24 * _HOUR}
_DEFAULTS = {"enabled": True, "maxAge": "30d"}
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.S)

_settings: dict[str, tuple[int, dict[str, Any]]] = {}
_newer: dict[str, tuple[int, bool]] = {}
_ID = re.compile(r"[0-9a-f]{8,}(?:-[0-9a-f]+)*", re.IGNORECASE)
_LOG_BYTES = 64 * 1024 * 1024


class GeminiArchive(SessionArchive):
    """Sessions of lines, and of one object (versions before 0.39)."""

    # Both versions compact at half of the window in their table, by the last request's input
    # (``DEFAULT_COMPRESSION_TOKEN_THRESHOLD``); they set no length for the answer and keep nothing free.
    window_rules = WindowRules(reserved=0, compacts_at=0.5, window=1_048_576, tried=("0.29.0", "0.61.0"))

    def stored(self, home: Path) -> Iterator[StoredSession]:
        return files.stored_sessions(home)

    def brief(self, stored: StoredSession) -> Brief:
        return brief.brief(stored)

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        if not stored.appends:
            yield from walk.object_records(stored.path)[start:]
            return
        try:
            with stored.path.open("rb") as file:
                yield from walk.forward(file, start)
        except OSError as error:
            yield unreadable(start, error)

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        if not stored.appends:
            yield from reversed(walk.object_records(stored.path)[:end])
            return
        try:
            with stored.path.open("rb") as file:
                yield from walk.backward(file, end)
        except OSError as error:
            yield unreadable(0, error)

    def side(self, stored: StoredSession) -> Sequence[StoredSession]:
        """New versions keep a subagent's session in a folder named by its parent's id."""
        transcripts = []
        for path in sorted((stored.path.parent / stored.id).glob("*.jsonl")):
            with suppress(OSError):
                status = path.stat()
                transcripts.append(
                    StoredSession(
                        id=path.stem,
                        home=stored.home,
                        file=str(path),
                        size=status.st_size,
                        changed_ns=status.st_mtime_ns,
                    )
                )
        return transcripts

    def files(self, stored: StoredSession) -> Sequence[Path]:
        """Includes ``.project_root``, by which Gemini recognises a project's folder."""
        project = stored.path.parents[1]
        beside = [
            file for path in _artifacts(project, stored.id) for file in (path, *sorted(path.rglob("*")))
        ]
        paths = [stored.path, project / ".project_root", *beside]
        return [path for path in paths if path.is_file() and path.is_relative_to(stored.home)]

    def expires_ms(self, stored: StoredSession, brief: Brief) -> int | None:
        return _expires_ms(stored, brief)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        from segue.agents.gemini.repair import repair

        return repair(stored, new_id, options)

    def remove(self, stored: StoredSession) -> None:
        _remove(stored)


ARCHIVE: SessionArchive = GeminiArchive()


# --- clean-up --------------------------------------------------------------------------------------
#
# ``general.sessionRetention`` in the home's settings: each start in a project deletes sessions that were last
# updated longer ago than ``maxAge``, and all except the newest ``maxCount``. Versions that write lines do it
# by default after 30 days; older ones only if the settings say so.


def _expires_ms(stored: StoredSession, brief: Brief) -> int | None:
    rules = _retention(stored.home)
    if stored.appends or _is_newer(stored.path.parent):
        rules = _DEFAULTS | rules
    used = brief.last_used_ms or stored.changed_ns // 1_000_000
    age, least = _period(rules.get("maxAge")), _period(rules.get("minRetention")) or _UNITS["d"]
    count = as_whole(rules.get("maxCount"))
    wrong = (rules.get("maxAge") and age is None) or (age is not None and age < least)
    if not rules.get("enabled") or wrong or (count is not None and count < 1):
        return None
    if count is not None and _newer_ones(stored) >= count:
        return used
    return used + age if age is not None else None


def _period(text: Any) -> int | None:
    found = re.fullmatch(r"(\d+)([dhwm])", text) if isinstance(text, str) else None
    return int(found[1]) * _UNITS[found[2]] or None if found else None


def _retention(home: Path) -> dict[str, Any]:
    """Read again only if the settings have changed, because it is needed for every session of a list."""
    path = f"{home}/.gemini/settings.json"
    try:
        changed = os.stat(path).st_mtime_ns
        known = _settings.get(path)
        if known is None or known[0] != changed:
            with open(path, encoding="utf-8") as file:
                text = _COMMENT.sub(lambda found: found[1] or "", file.read(1 << 20))
            found = as_table(as_table(as_table(json.loads(text)).get("general")).get("sessionRetention"))
            known = _settings[path] = (changed, found)
        return known[1]
    except (OSError, ValueError, RecursionError):
        return {}


def _is_newer(chats: Path) -> bool:
    """Whether a version that writes lines was used here: it cleans up older sessions too."""
    try:
        changed = os.stat(chats).st_mtime_ns
        known = _newer.get(str(chats))
        if known is None or known[0] != changed:
            known = _newer[str(chats)] = (changed, any(name.endswith(".jsonl") for name in os.listdir(chats)))
        return known[1]
    except OSError:
        return False


def _newer_ones(stored: StoredSession) -> int:
    newer: set[str] = set()
    try:
        with os.scandir(stored.path.parent) as listing:
            for item in listing:
                mine = not item.name.startswith("session-") or short_id(item.name) == stored.id[:8]
                if not mine and item.stat().st_mtime_ns > stored.changed_ns:
                    newer.add(short_id(item.name))
    except OSError:
        return 0
    return len(newer)


# --- removal ---------------------------------------------------------------------------------------
#
# ``projects.json`` names directories, not sessions, and is not changed. Nothing outside the home is ever
# touched: a link is deleted, not its target. A name becomes part of a path only if it has the form of
# Gemini's ids, and a file is deleted only if it is really in the expected folder.


def _remove(stored: StoredSession) -> None:
    """Delete its files, what is stored beside them under its id, and its entries in ``logs.json``."""
    for chats in map(Path, folders(stored.home)):
        if not _inside(chats, stored.home):
            continue
        found = list(_files(chats, stored.id))
        for path in (*found, *_artifacts(chats.parent, stored.id)):
            _delete(path, chats.parent)
        if found or chats == stored.path.parent:
            _forget(chats.parent / "logs.json", stored.id)
            _delete(stored.path, chats.parent)


def _artifacts(project: Path, session: str) -> list[Path]:
    """What Gemini keeps under a session's id: its subagents' sessions, logs, tool output, plans and tasks."""
    if len(session) <= 8 or not _ID.fullmatch(session):
        return []
    inner = project / "chats" / session
    found = [inner, *_named(project, session)]
    for agent in _subagents(inner):
        found += _named(project, agent)
    return [path for path in found if os.path.lexists(path)]


def _subagents(inner: Path) -> list[str]:
    """Their ids, by their files' names, without those that are separate sessions."""
    if inner.is_symlink():
        return []
    try:
        names = [file.stem for file in inner.iterdir() if file.suffix in (".json", ".jsonl")]
    except OSError:
        return []
    return [name for name in names if _ID.fullmatch(name) and not any(_files(inner.parent, name))]


def _named(project: Path, name: str) -> tuple[Path, Path, Path]:
    return (
        project / "logs" / f"session-{name}.jsonl",
        project / "tool-outputs" / f"session-{name}",
        project / name,
    )


def _files(chats: Path, session: str) -> Iterator[Path]:
    """The files that name this session as theirs: twins, second names, and unreadable ones set aside."""
    short = f"-{session[:8]}.json"
    with suppress(OSError):
        for path in list(chats.iterdir()):
            name = path.name.removeprefix(SECOND_NAME)
            if name.startswith("session-") and short in name and files.owner_of(path) == session:
                yield path


def _inside(folder: Path, home: Path) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(home))


def _delete(path: Path, project: Path) -> None:
    """Delete a path only if it is really in the project's folder, without links or ``..`` in between."""
    try:
        expected = os.path.join(os.path.realpath(project), path.parent.relative_to(project))
    except ValueError:
        return
    if ".." in path.parts or os.path.realpath(path.parent) != os.path.normpath(expected):
        return
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _forget(logs: Path, session: str) -> None:
    """Remove one session's prompts from a project's list; the others stay the same, byte for byte."""
    try:
        if logs.is_symlink() or logs.stat().st_size > _LOG_BYTES:
            return
        text = logs.read_bytes().decode()
        kept, gone = _entries(text, session)
    except (OSError, ValueError, RecursionError):
        return
    if gone:
        rest = "[\n  " + ",\n  ".join(kept) + "\n]" if kept else "[]"
        write_whole(logs, rest.encode())


def _entries(text: str, session: str) -> tuple[list[str], int]:
    """The entries of other sessions as they are written, and how many belong to this one."""
    decoder, kept, gone = json.JSONDecoder(), list[str](), 0
    at = text.index("[") + 1
    while (begin := text.find("{", at)) >= 0:
        one: Any
        one, at = decoder.raw_decode(text, begin)
        if as_table(one).get("sessionId") == session:
            gone += 1
        else:
            kept.append(text[begin:at])
    return kept, gone
