"""What Gemini leaves on disk: ``.gemini/tmp/<project>/chats/session-<minute>-<8 of the id>.jsonl``.

Up to some version the files are single ``.json`` objects with the same messages. Lines of a ``.jsonl`` are
a header, messages (a later one of the same id replaces the earlier) and ``$set`` patches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from segue.core.reading import Reading
from segue.core.request import Place, Request
from segue.core.usage import Usage, disjoint

TAIL_BYTES = 4 * 1024 * 1024
WHOLE_BYTES = 64 * 1024 * 1024
STUB_BYTES = 1024 * 1024


class Tokens(msgspec.Struct, frozen=True):
    input: int | None = None
    cached: int | None = None
    total: int | None = None

    def plain(self) -> Usage:
        output = None if self.total is None or self.input is None else max(0, self.total - self.input)
        return disjoint(self.input, self.cached, output)


class Message(msgspec.Struct, frozen=True):
    """What is read of a record; all others have no ``tokens``."""

    id: str = ""
    timestamp: str = ""
    tokens: Tokens | None = None


class _Whole(msgspec.Struct, frozen=True):
    messages: list[Message] = []


_message = msgspec.json.Decoder(Message)
_whole = msgspec.json.Decoder(_Whole)


def evidence(request: Request, place: Place, home: Path, reading: Reading) -> dict[str, Any]:
    """Where the session is, and what each model request of this run used, the last one last."""
    session = reading.session_id or request.start.session
    if not session:
        return {}
    files = list(find(home, session))
    if request.start.mode == "resume":
        _drop_stub(files, session, place.started_ms)
    spent = {
        m.id: m.tokens for file in files for m in _messages(file) if m.tokens is not None and _since(m, place)
    }
    return {
        "session": _whereabouts(files, request.cwd),
        "requests": tuple(tokens.plain() for tokens in spent.values()),
    }


def find(home: Path, session: str) -> Iterator[Path]:
    """The files that may hold a session, in any project."""
    return home.glob(f".gemini/tmp/*/chats/session-*-{session[:8]}.json*")


def _whereabouts(files: list[Path], cwd: Path) -> str:
    if not files:
        return "nowhere"
    return "here" if any(_belongs(file.parents[1], cwd) for file in files) else "elsewhere"


def _belongs(project: Path, cwd: Path) -> bool:
    """A project's folder names its directory in a file, or by its hash on old versions."""
    try:
        root = (project / ".project_root").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return project.name == sha256(os.path.realpath(cwd).encode()).hexdigest()
    return os.path.realpath(root) == os.path.realpath(cwd)


def _messages(file: Path) -> list[Message]:
    try:
        if file.suffix == ".json":
            return _whole.decode(file.read_bytes()).messages if file.stat().st_size <= WHOLE_BYTES else []
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return [message for line in lines if (message := _read(line)) is not None]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


def _read(line: bytes) -> Message | None:
    try:
        return _message.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _since(message: Message, place: Place) -> bool:
    started = datetime.fromtimestamp(place.started_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return message.timestamp[:23] >= started[:23]


def _drop_stub(files: list[Path], session: str, started_ms: int) -> None:
    """Remove the empty twin that a resume leaves beside the session's file (0.61).

    The next start of any other session would take it for a broken session, and delete it and, because
    both names end in the same characters, the real file with it.
    """
    for file in files:
        others = [other for other in files if other.parent == file.parent and other != file]
        if others and file.suffix == ".jsonl" and _is_stub(file, session, started_ms):
            file.unlink(missing_ok=True)


def _is_stub(file: Path, session: str, started_ms: int) -> bool:
    """Born in this run, of this session, and holding nothing but the context Gemini opens with."""
    try:
        stat = file.stat()
        if stat.st_size > STUB_BYTES or stat.st_mtime_ns // 1_000_000 < started_ms:
            return False
        header, *rest = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        messages = [message for record in rest for message in record["$set"].get("messages", [])]
        said = [part["text"] for message in messages for part in message["content"]]
        return header["sessionId"] == session and all(text.startswith("<session_context>") for text in said)
    except (
        OSError,
        msgspec.MsgspecError,
        UnicodeDecodeError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ):
        return False
