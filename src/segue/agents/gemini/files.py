"""Where Gemini's sessions lie: ``.gemini/tmp/<project>/chats/session-<minute>-<8 of the id>.jsonl``.

One session may have several files: the older ``.json`` beside the ``.jsonl`` that an update made of it, and
the empty twin that a resume leaves behind (0.61). The next start of any other session takes that twin for a
broken session and deletes it and, because their names end alike, the real file with it.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.gemini.message import Message, is_context

STUB_BYTES = 1024 * 1024
HEAD_BYTES = 4096
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"]*)"')


def find(home: Path, session: str) -> Iterator[Path]:
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


def owner(file: Path) -> str | None:
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
    owners = {file: owner(file) for file in files}
    real = [file for file in owners if owners[file] == session and not is_stub(file, session)]
    return max(real or [file for file in owners if owners[file] in (session, None)], key=_age, default=None)


def _age(file: Path) -> tuple[int, str]:
    try:
        return file.stat().st_mtime_ns, file.suffix
    except OSError:
        return 0, ""


def encoded(suffix: str, header: dict[str, Any], states: list[list[Message]]) -> bytes:
    """A session as a file of that kind; of several states, each replaces the one before."""
    if suffix == ".json":
        return _json(header | {"messages": states[-1]}, indent=2)
    patches = [{"$set": {"messages": messages}} for messages in states[1:]]
    return b"".join(_json(record) + b"\n" for record in (header, *states[0], *patches))


def put(path: Path, data: bytes) -> None:
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
