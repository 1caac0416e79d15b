"""Take a session away: all of its files, what lies beside them under its id, and its lines in ``logs.json``.

``projects.json`` names directories, not sessions, and stays as it is. What lies outside of the home, behind a
link, is never touched: a link is taken away, not what it leads to. A name becomes part of a path only where
it is an id as Gemini makes them, and nothing goes that does not really lie in the folder it is looked for in.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from segue.agents.gemini import files
from segue.agents.gemini.keeping import MARK
from segue.agents.gemini.listing import folders
from segue.agents.reader import Stored
from segue.core.loose import table

_ID = re.compile(r"[0-9a-f]{8,}(?:-[0-9a-f]+)*", re.IGNORECASE)
LOG_BYTES = 64 * 1024 * 1024


def remove(stored: Stored) -> None:
    for chats in map(Path, folders(stored.home)):
        if not _inside(chats, stored.home):
            continue
        found = list(_files(chats, stored.id))
        for path in (*found, *artifacts(chats.parent, stored.id)):
            _delete(path, chats.parent)
        if found or chats == stored.path.parent:
            _forget(chats.parent / "logs.json", stored.id)
            _delete(stored.path, chats.parent)


def artifacts(project: Path, session: str) -> list[Path]:
    """What Gemini keeps under a session's id: its subagents' sessions, logs, tool output, plans and tasks."""
    if len(session) <= 8 or not _ID.fullmatch(session):
        return []
    inner = project / "chats" / session
    found = [inner, *_named(project, session)]
    for agent in _subagents(inner):
        found += _named(project, agent)
    return [path for path in found if os.path.lexists(path)]


def _subagents(inner: Path) -> list[str]:
    """Their ids, by their files' names; but not one that is a session of its own."""
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
    """Files that say they are this session's: twins, second names, and unreadable ones set aside."""
    short = f"-{session[:8]}.json"
    with suppress(OSError):
        for path in list(chats.iterdir()):
            name = path.name.removeprefix(MARK)
            if name.startswith("session-") and short in name and files.owner(path) == session:
                yield path


def _inside(folder: Path, home: Path) -> bool:
    return Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(home))


def _delete(path: Path, project: Path) -> None:
    """Only what lies in the project's folder where its path says, with no link or step back on the way."""
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
    """Take one session's prompts out of a project's list of prompts; the others stay to the byte."""
    try:
        if logs.is_symlink() or logs.stat().st_size > LOG_BYTES:
            return
        text = logs.read_bytes().decode()
        kept, gone = _entries(text, session)
    except (OSError, ValueError, RecursionError):
        return
    if gone:
        rest = "[\n  " + ",\n  ".join(kept) + "\n]" if kept else "[]"
        files.put(logs, rest.encode())


def _entries(text: str, session: str) -> tuple[list[str], int]:
    """The entries of others as they are written, and how many were this one's."""
    decoder, kept, gone = json.JSONDecoder(), list[str](), 0
    at = text.index("[") + 1
    while (begin := text.find("{", at)) >= 0:
        one: Any
        one, at = decoder.raw_decode(text, begin)
        if table(one).get("sessionId") == session:
            gone += 1
        else:
            kept.append(text[begin:at])
    return kept, gone
