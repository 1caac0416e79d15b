"""Where Gemini's sessions are: ``.gemini/tmp/<project>/chats/session-<minute>-<8 of the id>.jsonl``.

One session can have several files: the older ``.json`` beside the ``.jsonl`` that an update made from it, and
the empty twin that a resume leaves behind (0.61). The next start of any other session considers that twin a
broken session and deletes it and, because their names end alike, also the real file. An update also copies a
folder that is named by a hash to one that is named like the project. The session is the file with its id that
was written last and is not a twin.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from segue.agents.base import StoredSession
from segue.agents.gemini.forms import is_context
from segue.core.json_values import as_table
from segue.system.files import write_whole

SECOND_NAME = ".kept-"
STUB_BYTES = 1024 * 1024
HEAD_BYTES = 4096
_MARKER = ".project_root"
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"]*)"')
_KNOWN_MOST = 200_000
_known: dict[tuple[str, int], str] = {}
"""The ids of files by path and inode: a file's head never changes."""

_Seen = tuple[str, os.stat_result]


def stored_sessions(home: Path) -> Iterator[StoredSession]:
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


def find_stored(home: Path, session: str, cwd: Path | None) -> StoredSession | None:
    """With a directory: only in its project's folder, and even if the file has lost its beginning."""
    if not session or "/" in session:
        return None
    candidates = find_file(home, session)
    if cwd is not None:
        candidates = (file for file in candidates if belongs(file, cwd))
    try:
        path = newest(candidates, session)
        status = path.stat() if path is not None else None
    except OSError:
        return None
    if path is None or status is None or not stat.S_ISREG(status.st_mode):
        return None
    its_own = cwd is not None or len(session) == 8 or owner_of(path) == session
    return _stored(home, session, str(path), status) if its_own else None


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
        known = owner_of(path) or ""
        if known:
            if len(_known) >= _KNOWN_MOST:
                _known.clear()
            _known[path, status.st_ino] = known
    return known


def _chosen(session: str, seen_files: list[_Seen]) -> _Seen:
    by_path = {Path(path): (path, status) for path, status in seen_files}
    best = newest(by_path, session)
    return by_path[best] if best is not None else seen_files[0]


def _stored(home: Path, session: str, path: str, status: os.stat_result) -> StoredSession:
    return StoredSession(
        id=session,
        home=home,
        file=path,
        size=status.st_size,
        changed_ns=status.st_mtime_ns,
        appends=path.endswith("l"),
    )


# --- the files of one session ----------------------------------------------------------------------


def find_file(home: Path, session: str) -> Iterator[Path]:
    """The files that may contain a session, in any project."""
    return (file for chats in home.glob(".gemini/tmp/*/chats") for file in alike(chats, session))


def alike(chats: Path, session: str) -> Iterator[Path]:
    """The files in a folder whose names end with this session's short id."""
    names = chats.glob(f"session-*-{glob.escape(session[:8])}.json*")
    return (file for file in names if file.suffix in (".json", ".jsonl"))


def owner_of(path: Path | str) -> str | None:
    """The id of the session in a file's header. File names contain only 8 characters of it."""
    found = _SESSION.search(_head(path, HEAD_BYTES))
    return found[1].decode("utf-8", "replace") if found else None


def is_stub(file: Path, session: str) -> bool:
    """Whether a file of this session contains only the context with which Gemini begins."""
    try:
        if file.suffix != ".jsonl" or file.stat().st_size > STUB_BYTES:
            return False
        header, *rest = map(json.loads, file.read_bytes().splitlines())
        said = [message for record in rest for message in record["$set"].get("messages", [])]
        return bool(header["sessionId"] == session) and all(map(is_context, said))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def newest(files: Iterable[Path], session: str) -> Path | None:
    """The file of a session: the one written last that is neither a twin nor another session's."""
    owners = {file: owner_of(file) for file in files}
    real = [file for file in owners if owners[file] == session and not is_stub(file, session)]
    return max(real or [file for file in owners if owners[file] in (session, None)], key=_age, default=None)


def _age(file: Path) -> tuple[int, str]:
    try:
        return file.stat().st_mtime_ns, file.suffix
    except OSError:
        return 0, ""


# --- the directory of a project --------------------------------------------------------------------


def belongs(file: Path, cwd: Path) -> bool:
    """Whether a file's project is this directory: its folder has a file that names it, or is its hash."""
    project = file.parents[1]
    root = _marked(str(project / _MARKER))
    if root is None:
        return project.name == sha256(os.path.realpath(cwd).encode()).hexdigest()
    return os.path.realpath(root) == os.path.realpath(cwd)


def project_directory(project: str, home: Path) -> str | None:
    """A project's directory, by the file in its folder or, in older versions, by the hash in its name."""
    name = os.path.basename(project)
    marked = _marked(f"{project}/{_MARKER}") or _marked(f"{home}/.gemini/history/{name}/{_MARKER}")
    return marked or _registered(home, name)


def _marked(path: str) -> str | None:
    try:
        return _head(path, 8192).decode().strip() or None
    except UnicodeDecodeError:
        return None


def _registered(home: Path, name: str) -> str | None:
    try:
        with open(f"{home}/.gemini/projects.json", "rb") as file:
            known = as_table(as_table(json.loads(file.read(4 << 20))).get("projects"))
    except (OSError, ValueError, RecursionError):
        return None
    for path, short in known.items():
        if name in (short, sha256(path.encode("utf-8", "replace")).hexdigest()):
            return str(path)
    return None


def _head(path: Path | str, size: int) -> bytes:
    """The beginning of a file; empty if it cannot be read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(opened, size)
        finally:
            os.close(opened)
    except OSError:
        return b""


# --- a second name ---------------------------------------------------------------------------------
#
# While 0.61 continues a session of an earlier minute, its empty twin is beside the file, and the start of any
# other session in the project then deletes both: what the run still writes becomes a file without a
# beginning. The second name, which Gemini ignores, keeps the beginning, so that both can be joined.


def add_second_name(path: Path) -> None:
    """Before a run: link the file under a second name, if the file system allows it."""
    second = path.with_name(SECOND_NAME + path.stem + ".jsonl")
    with suppress(OSError):
        second.unlink(missing_ok=True)
        if path.suffix == second.suffix:
            os.link(path, second)


def remove_second_name(home: Path, session: str) -> None:
    """After a run: restore what was deleted meanwhile, and remove the second name."""
    for second in _kept(home, session):
        with suppress(OSError):
            _join(second, session)
            second.unlink(missing_ok=True)


def restore_from_second_name(home: Path, session: str) -> None:
    """At any time: restore what was deleted; keep the second name if nothing was."""
    for second in _kept(home, session):
        with suppress(OSError):
            if _join(second, session):
                second.unlink(missing_ok=True)


def _kept(home: Path, session: str) -> list[Path]:
    found = home.glob(f".gemini/tmp/*/chats/{SECOND_NAME}session-*-{glob.escape(session[:8])}.jsonl")
    return [second for second in found if owner_of(second) == session]


def _join(second: Path, session: str) -> bool:
    """Join both parts, unless the session has a file under any name. Return whether they were joined."""
    path = second.with_name(second.name.removeprefix(SECOND_NAME))
    if any(owner_of(file) == session and not is_stub(file, session) for file in alike(path.parent, session)):
        return False
    rest = path.read_bytes() if path.exists() and owner_of(path) is None else b""
    write_whole(path, second.read_bytes() + rest)
    return True
