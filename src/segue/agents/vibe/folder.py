"""The session directory of 2.x: ``session_<date>_<time>_<8 of the id>/{meta.json,messages.jsonl}``.

3.x takes such a directory in under a new id when it is asked to resume it, so this is also the form in which
every cut is written. 2.x refuses a directory with a single damaged line, and 3.x an import of it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.vibe.told import Damaged

MESSAGES, META, ATTACHMENTS = "messages.jsonl", "meta.json", "attachments"
OURS = "written_by"
"""The key in ``meta.json`` that marks a directory as a cut of ours."""


class Line(msgspec.Struct, frozen=True):
    """One message, and the line it stands in."""

    role: str
    content: Any = None
    injected: Any = False
    raw: bytes = b""

    @property
    def opens(self) -> bool:
        return self.role == "user" and not self.injected

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else ""

    def line(self) -> bytes | None:
        return self.raw


_line = msgspec.json.Decoder(Line)


def root(home: Path) -> Path:
    return home / "logs" / "session"


def find(home: Path, session: str) -> Path | None:
    """The directory of a session: eight characters of the id are in its name, the rest in its meta."""
    unclear = None
    for folder in sorted(root(home).glob(f"session_*_{session[:8]}")):
        if not (folder / MESSAGES).is_file():
            continue
        known = meta(folder)
        if known is not None and known.get("session_id") == session:
            return folder
        unclear = folder if known is None else unclear
    return unclear


def meta(folder: Path) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode((folder / META).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def messages(folder: Path) -> Iterator[Line]:
    try:
        with (folder / MESSAGES).open("rb") as lines:
            for raw in lines:
                yield msgspec.structs.replace(_line.decode(raw), raw=raw)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged from error


def compacted(folder: Path) -> bool:
    """2.x goes on in a new session when it has compacted one, and names the old one its parent."""
    return bool((meta(folder) or {}).get("parent_session_id"))


def write(home: Path, session: str, known: dict[str, Any], lines: Sequence[bytes], source: Path) -> bool:
    """A session of these lines, whole or not at all; False when another one has taken its short id.

    ``source`` is where it was cut from: pictures that messages show lie there as files.
    """
    if any(root(home).glob(f"session_*_{session[:8]}")):
        return False
    name = f"session_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{session[:8]}"
    target = root(home) / name
    part = target.with_name(f".{name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    try:
        _put(part / MESSAGES, lines)
        _put(part / META, [msgspec.json.encode(known | {"session_id": session, OURS: "segue"})])
        with suppress(FileNotFoundError):
            shutil.copytree(source / ATTACHMENTS, part / ATTACHMENTS)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return True


def discard(home: Path, session: str) -> None:
    """Take away a cut of ours once the CLI has taken it in; never anything else."""
    folder = find(home, session)
    if folder is not None and (meta(folder) or {}).get(OURS) == "segue":
        shutil.rmtree(folder, ignore_errors=True)


def _put(path: Path, pieces: Sequence[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
