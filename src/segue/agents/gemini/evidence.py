"""What a run leaves on disk: where its session is, and what each model request used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.gemini.files import belongs, find, is_stub
from segue.agents.gemini.keeping import release
from segue.core.reading import Reading
from segue.core.request import Place, Request
from segue.core.usage import Usage, disjoint

TAIL_BYTES = 4 * 1024 * 1024
WHOLE_BYTES = 64 * 1024 * 1024


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
    release(home, session)
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


def _whereabouts(files: list[Path], cwd: Path) -> str:
    if not files:
        return "nowhere"
    return "here" if any(belongs(file, cwd) for file in files) else "elsewhere"


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
    """Remove the empty twin that this run's resume left beside the session's file, and no other."""
    for file in files:
        others = [other for other in files if other.parent == file.parent and other != file]
        if others and _is_new(file, started_ms) and is_stub(file, session):
            file.unlink(missing_ok=True)


def _is_new(file: Path, started_ms: int) -> bool:
    try:
        return file.stat().st_mtime_ns // 1_000_000 >= started_ms
    except OSError:
        return False
