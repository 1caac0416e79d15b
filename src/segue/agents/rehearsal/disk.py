"""Reading and writing the rehearsal agent's files: tolerant of what others left, exact in what is written."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from segue.core.decoder import decode

REREAD_SECONDS = 0.05


class Line(msgspec.Struct, frozen=True):
    """What is looked at of a line: the header's, or a message's."""

    type: str = ""
    id: str = ""
    kind: str = ""
    role: str = ""

    @property
    def is_answer(self) -> bool:
        return self.kind == "text" and self.role == "assistant"

    @property
    def is_prompt(self) -> bool:
        return self.kind == "text" and self.role == "user"


class _Login(msgspec.Struct, frozen=True):
    account: str = ""


_line = msgspec.json.Decoder(Line)


def read(line: bytes) -> Line:
    return _line.decode(line)


def tail(path: Path, size: int) -> tuple[list[bytes], bool]:
    """The whole lines among the last bytes of a file, and whether that is all of it."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, 2) - size)
        file.seek(start)
        lines = file.read().split(b"\n")[:-1]
    return (lines if start == 0 else lines[1:]), start == 0


def messages(lines: Sequence[bytes]) -> list[Line]:
    """The messages behind the last line that is damaged."""
    found: list[Line] = []
    for line in reversed(lines):
        try:
            record = read(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            break
        if record.type == "message":
            found.append(record)
    return found[::-1]


def up_to(lines: Sequence[bytes], anchor: str) -> list[bytes]:
    """The lines up to and with a message; none when it is not among them."""
    for number, line in enumerate(lines):
        if anchor.encode() in line and read(line).id == anchor:
            return list(lines[: number + 1])
    return []


def renamed(header: bytes, **fields: Any) -> bytes:
    """A session's header with other fields."""
    return msgspec.json.encode(msgspec.json.decode(header, type=dict[str, Any]) | fields)


def write(path: Path, lines: Sequence[bytes]) -> None:
    """All of it, or nothing."""
    beside = path.with_name(f".{path.stem}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
        beside.rename(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def login(path: Path) -> str | None:
    """A fingerprint of the account in it. A broken file may be in the middle of being written."""
    for pause in (REREAD_SECONDS, 0):
        try:
            account = decode(path.read_bytes(), _Login).account
        except OSError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            time.sleep(pause)
            continue
        return _hashed(account) if account else None
    return None


def _hashed(text: str) -> str:
    from hashlib import sha256  # most turns never ask, and start faster without it

    return sha256(text.encode()).hexdigest()[:16]
