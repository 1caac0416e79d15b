"""The rehearsal agent's sessions on disk: one JSONL file each, one writer at a time.

    REHEARSAL_HOME/sessions/<id>.jsonl    a header line, then one line per message
    REHEARSAL_HOME/sessions/<id>.lock     locked (flock) while a process may write; a kill releases it
    REHEARSAL_HOME/login.json             who is logged in, {"account": NAME, "pays": HOW}; optional

A message is written when it happens, so a prompt that failed or was interrupted stays in the session, as it
does with the real CLIs. An incomplete last line is left by a kill and is dropped; any other damage makes the
session unusable.
"""

import fcntl
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from segue.rehearsal.types import Item
from segue.system import clock

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Refused(Exception):  # noqa: N818 - reads better than RefusedError at every raise
    """The session cannot be used; ``kind`` and ``reason`` are Segue's names for the failure."""

    def __init__(self, kind: str, reason: str | None, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason


class Header(Struct, frozen=True, tag="session", tag_field="type", kw_only=True, omit_defaults=True):
    """The first line. A fork names its ``parent``, a branch also the message it was cut ``at``."""

    id: str
    cwd: str
    model: str
    created_ms: int
    system: str = ""
    parent: str | None = None
    at: str | None = None


class Message(Struct, frozen=True, tag="message", tag_field="type", omit_defaults=True):
    """One piece of the conversation: a text, a tool call, or a tool's result."""

    id: str
    kind: Literal["text", "call", "result"]
    role: Literal["user", "assistant"]
    text: str
    call_id: str = ""
    time_ms: int = 0
    last: bool = False
    """The answer that ends its turn."""

    @property
    def item(self) -> Item:
        return Item(self.kind, self.role, self.text, self.call_id)

    @property
    def is_anchor(self) -> bool:
        return self.kind == "text" and self.role == "assistant"


def default_home(env: Mapping[str, str]) -> Path:
    """The agent's home: ``REHEARSAL_HOME``, or a directory below the user's data directory."""
    if env.get("REHEARSAL_HOME"):
        return Path(env["REHEARSAL_HOME"])
    data = env.get("XDG_DATA_HOME") or f"{env.get('HOME') or '.'}/.local/share"
    return Path(data) / "segue-rehearsal"


def new_id() -> str:
    digits = clock.random_hex(16)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def now_ms() -> int:
    return clock.now_ms()


class Session:
    """An open session. ``saved`` false: nothing is written."""

    def __init__(self, header: Header, messages: list[Message], file: int | None, lock: int | None) -> None:
        self.header = header
        self.messages = messages
        self.held = len(messages)
        """How many messages it had when it was opened."""
        self._file = file
        self._lock = lock

    @property
    def saved(self) -> bool:
        return self._file is not None

    def add(self, message: Message) -> Message:
        self.messages.append(message)
        if self._file is not None:
            os.write(self._file, msgspec.json.encode(message) + b"\n")
        return message


class Store:
    """All sessions of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "sessions"

    def create(self, header: Header, messages: list[Message], *, save: bool = True) -> Session:
        """A new session that begins with these messages."""
        if not save:
            return Session(header, messages, None, None)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = self._take(header.id)
        try:
            file = os.open(self._path(header.id), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            message = f"the session id {header.id} is already in use"
            raise Refused("session_rejected", "unknown", message) from None
        os.write(file, b"".join(msgspec.json.encode(line) + b"\n" for line in (header, *messages)))
        return Session(header, messages, file, lock)

    def resume(self, session: str, *, save: bool = True) -> Session:
        """Continue a session as its only writer."""
        self._must_exist(session)
        if not save:
            return Session(*self.read(session), None, None)
        lock = self._take(session)
        header, messages = self.read(session)
        file = os.open(self._path(session), os.O_WRONLY | os.O_APPEND)
        os.ftruncate(file, self._path(session).read_bytes().rfind(b"\n") + 1)
        return Session(header, messages, file, lock)

    def read(self, session: str) -> tuple[Header, list[Message]]:
        """The header and messages of a session, even while another process writes it."""
        self._must_exist(session)
        whole, _, _torn = self._path(session).read_bytes().rpartition(b"\n")
        try:
            lines = [_LINE.decode(line) for line in whole.split(b"\n")]
        except msgspec.MsgspecError as error:
            raise _damaged(session, str(error)) from None
        header, *rest = lines
        messages = [line for line in rest if isinstance(line, Message)]
        if not isinstance(header, Header) or header.id != session or len(messages) < len(rest):
            raise _damaged(session, "its header is missing or in the wrong place")
        return header, messages

    def _must_exist(self, session: str) -> None:
        if not self._path(session).is_file():
            raise Refused("session_rejected", "not_found", f"there is no session {session}")

    def _path(self, session: str) -> Path:
        return self.folder / f"{session}.jsonl"

    def _take(self, session: str) -> int:
        lock = os.open(self.folder / f"{session}.lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Refused("session_busy", None, f"another process is writing session {session}") from None
        return lock


def cut(messages: list[Message], at: str) -> list[Message]:
    """The messages up to and including an answer of the assistant."""
    for index, message in enumerate(messages):
        if message.id == at and message.is_anchor:
            return messages[: index + 1]
    raise Refused("session_rejected", "not_found", f"the session has no answer {at} to branch at")


def _damaged(session: str, why: str) -> Refused:
    return Refused("session_rejected", "corrupt", f"session {session} is damaged: {why}")


_LINE = msgspec.json.Decoder(Header | Message)
