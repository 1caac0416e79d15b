"""Where Claude keeps what belongs to a session, apart from its transcript.

``projects/<folder>/<id>/`` holds subagents' transcripts, long tool output and the title; ``file-history``,
``tasks``, ``session-env`` and ``todos`` hold what their names say, by the session's id. A debug log is no
part of the session, but goes with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("file-history", "tasks", "session-env")


def folders(home: Path, transcript: Path, session: str) -> Iterator[Path]:
    """The directories that belong to one session alone, whether they are there or not."""
    yield transcript.parent / session
    for name in FOLDERS:
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


def log(home: Path, session: str) -> Path:
    return home / "debug" / f"{session}.txt"


def within(folder: Path) -> Iterator[Path]:
    """All files below a directory; links are not followed."""
    if folder.is_symlink():
        return
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in sorted(names))
