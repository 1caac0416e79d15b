"""Where Gemini's sessions lie: ``.gemini/tmp/<project>/chats/session-<minute>-<8 of the id>.jsonl``.

One session may have several files: the older ``.json`` beside the ``.jsonl`` that an update made of it, and
the empty twin that a resume leaves behind (0.61). The next start of any other session takes that twin for a
broken session and deletes it and, because their names end alike, the real file with it.

A second name for a session's file while a run goes on in it.

While 0.61 goes on with a session of an earlier minute, its empty twin lies beside the file, and whoever
starts another session in the project then deletes both: what the run still writes becomes a file that has
no beginning. The second name, which Gemini does not look at, keeps the beginning, so that both can be joined.

The sessions of a home by their files' names. Names hold 8 characters of an id; the rest is in the head.

One session may have several files (see ``files``), and an update copies the folder that is named by a hash to
one that is named like the project: of all files of one id, the one it lives in is the session.

The directory that a project's folder belongs to, where Gemini wrote it down; never guessed from a name.
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
from typing import Any

import msgspec

from segue.agents.base import StoredSession
from segue.agents.gemini.schema import RawMessage, is_context
from segue.core.json_values import as_table

STUB_BYTES = 1024 * 1024
HEAD_BYTES = 4096
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"]*)"')


def find_file(home: Path, session: str) -> Iterator[Path]:
    """The files that may hold a session, in any project."""
    return (file for chats in home.glob(".gemini/tmp/*/chats") for file in alike(chats, session))


def alike(chats: Path, session: str) -> Iterator[Path]:
    """The files in a folder whose names end as this session's does."""
    names = chats.glob(f"session-*-{glob.escape(session[:8])}.json*")
    return (file for file in names if file.suffix in (".json", ".jsonl"))


def belongs(file: Path, cwd: Path) -> bool:
    """A project's folder names its directory in a file, or by its hash on old versions."""
    project = file.parents[1]
    try:
        root = (project / ".project_root").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return project.name == sha256(os.path.realpath(cwd).encode()).hexdigest()
    return os.path.realpath(root) == os.path.realpath(cwd)


def owner_of(file: Path) -> str | None:
    """The id of the session that a file says it holds."""
    try:
        with file.open("rb") as opened:
            found = _SESSION.search(opened.read(HEAD_BYTES))
    except OSError:
        return None
    return found[1].decode("utf-8", "replace") if found else None


def is_stub(file: Path, session: str) -> bool:
    """Whether a file of this session holds nothing but the context that Gemini opens with."""
    try:
        if file.suffix != ".jsonl" or file.stat().st_size > STUB_BYTES:
            return False
        header, *rest = map(json.loads, file.read_bytes().splitlines())
        said = [message for record in rest for message in record["$set"].get("messages", [])]
        return bool(header["sessionId"] == session) and all(map(is_context, said))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def newest(files: Iterable[Path], session: str) -> Path | None:
    """The file that a session lives in: the one written last, unless it is a twin or somebody else's."""
    owners = {file: owner_of(file) for file in files}
    real = [file for file in owners if owners[file] == session and not is_stub(file, session)]
    return max(real or [file for file in owners if owners[file] in (session, None)], key=_age, default=None)


def _age(file: Path) -> tuple[int, str]:
    try:
        return file.stat().st_mtime_ns, file.suffix
    except OSError:
        return 0, ""


def encoded(suffix: str, header: dict[str, Any], states: list[list[RawMessage]]) -> bytes:
    """A session as a file of that kind; of several states, each replaces the one before."""
    if suffix == ".json":
        return _json(header | {"messages": states[-1]}, indent=2)
    patches = [{"$set": {"messages": messages}} for messages in states[1:]]
    return b"".join(_json(record) + b"\n" for record in (header, *states[0], *patches))


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    # Gemini deletes what is named like a session and cannot be read
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(beside, "wb", opener=_private) as file:
            file.write(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _json(value: Any, indent: int | None = None) -> bytes:
    """As Gemini writes it; but half a surrogate pair has no other form than its escape."""
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return data if indent is None else msgspec.json.format(data, indent=indent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


SECOND_NAME = ".kept-"


def add_second_name(path: Path) -> None:
    """Before a run. Where a file cannot have two names, it has to do with one."""
    second = path.with_name(SECOND_NAME + path.stem + ".jsonl")
    with suppress(OSError):
        second.unlink(missing_ok=True)
        if path.suffix == second.suffix:
            os.link(path, second)


def remove_second_name(home: Path, session: str) -> None:
    """After a run: make whole what was deleted meanwhile, and let go of the second name."""
    for second in _kept(home, session):
        with suppress(OSError):
            _join(second, session)
            second.unlink(missing_ok=True)


def restore_from_second_name(home: Path, session: str) -> None:
    """At any time: make whole what was deleted, and keep the second name where nothing was."""
    for second in _kept(home, session):
        with suppress(OSError):
            if _join(second, session):
                second.unlink(missing_ok=True)


def _kept(home: Path, session: str) -> list[Path]:
    found = home.glob(f".gemini/tmp/*/chats/{SECOND_NAME}session-*-{glob.escape(session[:8])}.jsonl")
    return [second for second in found if owner_of(second) == session]


def _join(second: Path, session: str) -> bool:
    """Put both parts together; but not where the session has a file, under whatever name."""
    path = second.with_name(second.name.removeprefix(SECOND_NAME))
    if any(owner_of(file) == session and not is_stub(file, session) for file in alike(path.parent, session)):
        return False
    rest = path.read_bytes() if path.exists() and owner_of(path) is None else b""
    write_file(path, second.read_bytes() + rest)
    return True


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
    """With a directory: in its project's folder alone, and even if the file has lost its beginning."""
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
            head = os.read(opened, HEAD_BYTES)
        finally:
            os.close(opened)
    except OSError:
        return ""
    begin = head.find(b'"', head.find(b":", head.find(b'"sessionId"')))
    end = head.find(b'"', begin + 1)
    return head[begin + 1 : end].decode("utf-8", "replace") if b'"sessionId"' in head and end > 0 else ""


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


_MARKER = ".project_root"


def project_directory(project: str, home: Path) -> str | None:
    """By the file in the folder; a folder of older versions is named by the hash of its directory instead."""
    found = _read(f"{project}/{_MARKER}")
    if found is not None:
        return found
    name = os.path.basename(project)
    return _read(f"{home}/.gemini/history/{name}/{_MARKER}") or _registered(home, name)


def _read(path: str) -> str | None:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(opened, 8192).decode().strip() or None
        finally:
            os.close(opened)
    except (OSError, UnicodeDecodeError):
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
