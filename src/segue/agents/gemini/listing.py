"""The sessions of a home by their files' names. Names hold 8 characters of an id; the rest is in the head.

One session may have several files (see ``files``), and an update copies the folder that is named by a hash to
one that is named like the project: of all files of one id, the one it lives in is the session.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from segue.agents.gemini import files
from segue.agents.reader import Stored

_KNOWN_MOST = 200_000
_known: dict[tuple[str, int], str] = {}
"""The ids of files by path and inode: a file's head never changes."""

_Seen = tuple[str, os.stat_result]


def stored(home: Path) -> Iterator[Stored]:
    by_id: dict[str, list[_Seen]] = {}
    for chats in folders(home):
        nameless: list[_Seen] = []
        here: set[str] = set()
        for seen in _sessions(chats):
            session = _owner(seen)
            if session:
                here.add(session[:8])
                by_id.setdefault(session, []).append(seen)
            else:
                nameless.append(seen)
        for seen in nameless:
            if (short := short_id(seen[0])) not in here:
                by_id.setdefault(short, []).append(seen)
    for session, seen_files in by_id.items():
        path, status = seen_files[0] if len(seen_files) == 1 else _chosen(session, seen_files)
        yield _stored(home, session, path, status)


def find(home: Path, session: str) -> Stored | None:
    if not session or "/" in session:
        return None
    try:
        path = files.newest(files.find(home, session), session)
        status = path.stat() if path is not None else None
    except OSError:
        return None
    if path is None or status is None or not stat.S_ISREG(status.st_mode):
        return None
    known = files.owner(path)
    return _stored(home, session, str(path), status) if known == session or len(session) == 8 else None


def folders(home: Path) -> Iterator[str]:
    """The ``chats`` folders of all projects."""
    for project in _scan(f"{home}/.gemini/tmp"):
        yield f"{project.path}/chats"


def short_id(path: str) -> str:
    return path.rpartition(".")[0][-8:]


def _sessions(chats: str) -> Iterator[_Seen]:
    for item in _scan(chats):
        name = item.name
        if name.startswith("session-") and name.endswith((".jsonl", ".json")):
            try:
                status = item.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield item.path, status


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            yield from listing
    except OSError:
        return


def _owner(seen: _Seen) -> str:
    path, status = seen
    known = _known.get((path, status.st_ino))
    if known is None:
        known = _read_owner(path)
        if known:
            if len(_known) >= _KNOWN_MOST:
                _known.clear()
            _known[path, status.st_ino] = known
    return known


def _read_owner(path: str) -> str:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head = os.read(opened, files.HEAD_BYTES)
        finally:
            os.close(opened)
    except OSError:
        return ""
    begin = head.find(b'"', head.find(b":", head.find(b'"sessionId"')))
    end = head.find(b'"', begin + 1)
    return head[begin + 1 : end].decode("utf-8", "replace") if b'"sessionId"' in head and end > 0 else ""


def _chosen(session: str, seen_files: list[_Seen]) -> _Seen:
    by_path = {Path(path): (path, status) for path, status in seen_files}
    best = files.newest(by_path, session)
    return by_path[best] if best is not None else seen_files[0]


def _stored(home: Path, session: str, path: str, status: os.stat_result) -> Stored:
    return Stored(
        id=session,
        home=home,
        file=path,
        size=status.st_size,
        changed_ns=status.st_mtime_ns,
        appends=path.endswith("l"),
    )
