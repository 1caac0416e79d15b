"""The rehearsal agent's sessions: ``<home>/sessions/<id>.jsonl``, a header and one line per message.

An anchor is a message's id. The agent itself can cut a session at an answer, and keeps the ids; if a turn was
interrupted, the session is copied up to the cut. A last line that was torn by a kill is ignored.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import CutRequest, StoredSession
from segue.agents.decoding import DAMAGE, login_fingerprint
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.json_values import decode
from segue.core.request import Runtime, Start
from segue.core.usage import Pays
from segue.system.files import whole_file


class Line(msgspec.Struct, frozen=True):
    """Any line: the header's fields, and a message's."""

    type: str = ""
    id: str = ""
    cwd: str | None = None
    model: str | None = None
    created_ms: int | None = None
    system: str = ""
    parent: str | None = None
    kind: str = ""
    role: str = ""
    text: str = ""
    call_id: str = ""
    time_ms: int | None = None
    last: bool = False

    @property
    def is_answer(self) -> bool:
        return self.kind == "text" and self.role == "assistant"

    @property
    def is_prompt(self) -> bool:
        return self.kind == "text" and self.role == "user"


class _Login(msgspec.Struct, frozen=True):
    account: str = ""
    pays: Pays = "unknown"


_line = msgspec.json.Decoder(Line)


def read_line(line: bytes) -> Line:
    return _line.decode(line)


def last_lines(path: Path, size: int) -> tuple[list[bytes], bool]:
    """The whole lines among the last bytes of a file, and whether that is all of it."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, 2) - size)
        file.seek(start)
        lines = file.read().split(b"\n")[:-1]
    return (lines if start == 0 else lines[1:]), start == 0


def messages_in(lines: Sequence[bytes]) -> list[Line]:
    """The messages after the last damaged line."""
    messages: list[Line] = []
    for line in reversed(lines):
        try:
            record = read_line(line)
        except DAMAGE:
            break
        if record.type == "message":
            messages.append(record)
    return messages[::-1]


def lines_up_to(lines: Sequence[bytes], anchor: str) -> list[bytes]:
    """The lines up to and including a message; empty if it is not among them."""
    for number, line in enumerate(lines):
        if anchor.encode() in line and read_line(line).id == anchor:
            return list(lines[: number + 1])
    return []


def renamed(header: bytes, **fields: Any) -> bytes:
    """A record with some fields replaced."""
    return msgspec.json.encode(msgspec.json.decode(header, type=dict[str, Any]) | fields)


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write all lines or none."""
    with whole_file(path) as file:
        file.writelines(line + b"\n" for line in lines)


FIRST_BYTES = 4 * 1024


class RehearsalFormat:
    """The format of the rehearsal agent's sessions."""

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        try:
            return stored_file(home, home / "sessions" / f"{native_id(session)}.jsonl")
        except Misuse:
            return None

    def end(self, stored: StoredSession) -> str | None:
        messages = _newest(stored.path, bool)
        return messages[-1].id if messages else None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        try:
            header, *lines = stored.path.read_bytes().split(b"\n")[:-1]
            kept = lines_up_to(lines, wanted.anchor)
            if kept and read_line(kept[-1]).is_answer:
                return Start("branch", stored.id, wanted.anchor, wanted.new_id)
            if kept:
                copied = renamed(header, id=wanted.new_id, parent=stored.id, at=wanted.anchor)
                write_lines(stored.path.with_name(f"{wanted.new_id}.jsonl"), [copied, *kept])
                return Start("resume", wanted.new_id)
        except (OSError, ValueError, *DAMAGE):
            pass
        return None

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """At most one turn follows the anchor, and nothing else."""
        messages = _newest(stored.path, lambda some: any(message.id == anchor for message in some))
        ids = [message.id for message in messages]
        if anchor not in ids:
            return False
        later = messages[ids.index(anchor) + 1 :]
        prompts = [message for message in later if message.is_prompt]
        return later[:1] == prompts

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """The agent resumes its sessions as they are."""

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return login_fingerprint(home / "login.json", _Login, lambda login: login.account)


def pays(home: Path) -> Pays:
    """What the login says that it is paid by."""
    try:
        return decode((home / "login.json").read_bytes(), _Login).pays
    except (OSError, *DAMAGE):
        return "unknown"


def stored_file(home: Path, path: Path) -> StoredSession | None:
    """The session in a file; None if it is missing or not a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return StoredSession(
        id=path.stem, home=home, file=str(path), size=status.st_size, changed_ns=status.st_mtime_ns
    )


def _newest(path: Path, enough: Callable[[list[Line]], bool]) -> list[Line]:
    """The messages at the end of a session, until ``enough`` is satisfied, in their order."""
    size, whole = FIRST_BYTES, False
    messages: list[Line] = []
    while not whole and not enough(messages):
        try:
            lines, whole = last_lines(path, size)
        except OSError:
            return []
        messages, size = messages_in(lines), size * 8
    return messages


FORMAT = RehearsalFormat()


def last_answer(home: Path, session: str, since_ms: int) -> str:
    """The answer of a turn that began then, if the session ends with it."""
    stored = FORMAT.find(home, session)
    messages = _newest(stored.path, bool) if stored is not None else []
    ended = bool(messages) and messages[-1].last and (messages[-1].time_ms or 0) >= since_ms
    return messages[-1].text if ended else ""
