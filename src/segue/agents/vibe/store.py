"""A 3.x store, ``unified/<id>``, opened for reading: its newest generation, and where its parts are.

``CURRENT`` names a generation; the generation's manifest names its files, its chunks (JSON lists, named by
their content) and a journal. The journal is empty, except after a killed turn: then it contains every step of
it. Digests are not checked here: everything readable is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from segue.agents.base import StoredSession
from segue.agents.decoding import DAMAGE
from segue.agents.jsonl import LONGEST, forwards
from segue.agents.vibe import blocks, folder
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.blocks import Block
from segue.agents.vibe.meta import META, ProjectionState, RuntimeState, Session, Tokens, content
from segue.core.json_values import decode

T = TypeVar("T")
STORES, CURRENT = "unified", "CURRENT"
FORMAT, KNOWN_MINOR = "mistral.vibe.unified-session-store/v1", 9
ERRORS = (OSError, ValueError, *DAMAGE)
"""What opening or reading a damaged store raises."""


class _Current(msgspec.Struct, frozen=True):
    generation: str
    store_format_minor: int = 0


class File(msgspec.Struct, frozen=True):
    path: str = ""
    chunks: tuple[str, ...] | None = None


class _Segment(msgspec.Struct, frozen=True):
    path: str = ""


class Manifest(msgspec.Struct, frozen=True):
    checkpoint: File = File()
    projection_state: File = File()
    runtime_state: File = File()
    recovery_journal_segment: _Segment = _Segment()

    def __post_init__(self) -> None:
        """Names in a damaged store must not point outside it."""
        _inside(self.recovery_journal_segment.path)
        for file in self.files():
            for name in (file.path, *(file.chunks or ())):
                _inside(name)

    def files(self) -> tuple[File, File, File]:
        return self.checkpoint, self.projection_state, self.runtime_state


class Checkpoint(msgspec.Struct, frozen=True):
    compaction_count: int = 0


class _Effect(msgspec.Struct, frozen=True):
    tool: str = msgspec.field(name="toolName", default="")
    input: Any = None


class _Output(msgspec.Struct, frozen=True):
    structured: Any = msgspec.field(name="structured_content", default=None)


class _State(msgspec.Struct, frozen=True):
    status: str = ""
    text: str = msgspec.field(name="outputText", default="")
    output: _Output | None = None


class Shown(msgspec.Struct, frozen=True):
    """What a terminal shows: a message, an effect (a tool that ran), or a checkpoint."""

    type: str = ""
    id: str = ""
    role: str = ""
    kind: str = ""
    message: str = ""
    content: list[Block] = []
    detail: _Effect | None = None
    state: _State | None = None
    created_ms: int | None = msgspec.field(name="createdAt", default=None)


class Result(msgspec.Struct, frozen=True):
    """The result of a request (its parts and its usage) or of a tool."""

    parts: list[Block] = []
    content: list[Block] = []
    structured_content: Any = None
    error: Any = None
    usage: Tokens | None = None


class _Command(msgspec.Struct, frozen=True):
    type: str = ""
    content: msgspec.Raw = msgspec.Raw(b"[]")
    result: Result | None = None
    call_id: str = ""


class _Determinism(msgspec.Struct, frozen=True):
    time_unix_ms: int | None = None


class _Input(msgspec.Struct, frozen=True):
    command: _Command = _Command()
    determinism: _Determinism = _Determinism()


class _Payload(msgspec.Struct, frozen=True):
    kind: str | None = None
    input: _Input | None = None
    """The input of the agent's core."""
    result: _Command | None = None


class JournalRecord(msgspec.Struct, frozen=True):
    """One step of an unfinished turn. Some contain copies of the whole history, which are not decoded."""

    type: str = ""
    payload: _Payload = _Payload()


class Pending(msgspec.Struct, frozen=True):
    """The prompt of a turn that was killed, which is only in the journal.

    A resume replays the journal and, if a tool had run, finishes that turn before it begins a new one. What
    the turn will then contain is not known in advance.
    """

    content: msgspec.Raw
    role: str = "user"
    opens: bool = True

    def text(self) -> str:
        return blocks.sent_text(self.content)

    def line(self) -> bytes | None:
        return None


_journal_record = msgspec.json.Decoder(JournalRecord)


class Store(msgspec.Struct, frozen=True):
    folder: str
    generation: str
    """The generation's folder."""
    manifest: Manifest
    minor: int = 0

    def chunk(self, digest: str) -> str:
        return f"{self.folder}/chunks/{digest}.json"

    def messages(self) -> list[str]:
        """The files with the messages, in their order."""
        chunks = self.manifest.checkpoint.chunks
        return [self.part("checkpoint")] if chunks is None else list(map(self.chunk, chunks))

    def shown(self) -> list[str]:
        """The files with what a terminal shows."""
        return list(map(self.chunk, self.manifest.projection_state.chunks or ()))

    def part(self, name: str) -> str:
        file: File = getattr(self.manifest, name)
        return f"{self.generation}/{file.path or name.replace('_', '-') + '.json'}"

    @property
    def journal(self) -> str | None:
        """The file with the steps of an unfinished turn."""
        path = self.manifest.recovery_journal_segment.path
        return f"{self.folder}/{path}" if path else None

    def runtime(self) -> RuntimeState:
        return read(self.part("runtime_state"), RuntimeState)

    def session(self) -> Session:
        return read(self.part("projection_state"), ProjectionState).snapshot.session

    def compacted(self) -> bool:
        try:
            return read(self.part("checkpoint"), Checkpoint).compaction_count > 0
        except ERRORS:
            return False


def opened(path: Path) -> Store:
    """The current generation of a store. Raises one of ``ERRORS``."""
    where = str(path)
    current = read(f"{where}/{CURRENT}", _Current)
    generation = f"{where}/generations/{_inside(current.generation)}"
    return Store(where, generation, read(f"{generation}/manifest.json", Manifest), current.store_format_minor)


def newest(path: Path) -> Store | None:
    """The newest readable generation; None if there is none."""
    try:
        return opened(path)
    except ERRORS:
        pass
    for manifest in sorted(path.glob("generations/*/manifest.json"), reverse=True):
        try:
            return Store(str(path), str(manifest.parent), read(str(manifest), Manifest))
        except ERRORS:
            continue
    return None


def is_store(path: Path) -> bool:
    """Judged by its path, so that a damaged store counts as well."""
    return path.parent.name == STORES


def store_path(home: Path, session: str) -> Path:
    return folder.root_of(home) / STORES / session


def stored_store(home: Path, path: str) -> StoredSession | None:
    """A store as a session. Its size is that of its chunks and its journal: the rest is small."""
    try:
        changed = max(os.stat(f"{path}/{CURRENT}").st_mtime_ns, folder.changed_ns(f"{path}/{META}"))
    except OSError:
        return None
    size = 0
    for name in ("chunks", "journal"):
        for item in folder.listed(f"{path}/{name}"):
            try:
                status = item.stat()
            except OSError:
                continue
            size += status.st_size
            changed = max(changed, status.st_mtime_ns) if name == "journal" and status.st_size else changed
    session = os.path.basename(path)
    return StoredSession(id=session, home=home, file=path, size=size, changed_ns=changed, appends=False)


def messages_in(path: Path) -> Iterator[blocks.Item | Pending]:
    """All messages in order, chunk by chunk; at the end the prompts that are only in the journal."""
    try:
        store = opened(path)
        for file in store.messages():
            for item in blocks.items_of(content(file)):
                if not item.role:
                    raise Damaged
                yield item
        for _, record in journal_records(store.journal):
            command = record.payload.input.command if record.payload.input is not None else _Command()
            if command.type == "user_message":
                yield Pending(command.content)
    except ERRORS as error:
        raise Damaged from error


def journal_records(path: str | None) -> Iterator[tuple[int, JournalRecord]]:
    """The readable records of a journal, each with its number. A half-written last line is skipped."""
    if path is None or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        for n, line in enumerate(forwards(file)):
            record = journal_record(line.text) if line.text is not None else None
            if record is not None:
                yield n, record


def journal_record(line: bytes) -> JournalRecord | None:
    try:
        return _journal_record.decode(line)
    except DAMAGE:
        return None


def read(path: str, kind: type[T]) -> T:
    return decode(content(path, LONGEST), kind)


def _inside(path: str) -> str:
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"{path} points outside the session")
    return path
