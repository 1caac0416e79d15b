"""The session store of 3.x: ``unified/<id>``, as far as its messages go.

``CURRENT`` names a generation, its manifest the chunks that hold the messages of all turns that ended, and a
journal. The journal is empty but for a turn that was killed: of that one it holds every step. A resume plays
them again, and where a tool had run, finishes the dead turn before it begins the new one. What the turn will
then hold cannot be told before; that there is one, and what its prompt was, can.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.agents.vibe import blocks
from segue.agents.vibe.told import Damaged
from segue.core.decoder import decode

T = TypeVar("T")
_ERRORS = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Current(msgspec.Struct, frozen=True):
    generation: str


class _File(msgspec.Struct, frozen=True):
    path: str
    chunks: tuple[str, ...] | None = None


class _Segment(msgspec.Struct, frozen=True):
    path: str = ""


class _Manifest(msgspec.Struct, frozen=True):
    checkpoint: _File
    runtime_state: _File | None = None
    recovery_journal_segment: _Segment = _Segment()


class Stored(msgspec.Struct, frozen=True):
    """One message of a turn that ended. One that was put into a turn has another source than history."""

    message: blocks.Message
    source: str = "history"

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def opens(self) -> bool:
        return self.role == "user" and self.source == "history"

    def text(self) -> str:
        return blocks.text(self.message)

    def line(self) -> bytes | None:
        return blocks.line(self.message)


class Pending(msgspec.Struct, frozen=True):
    """The prompt of a turn that was killed: in the journal alone."""

    content: msgspec.Raw
    role: str = "user"
    opens: bool = True

    def text(self) -> str:
        return blocks.text(blocks.Message(role="user", content=self.content))

    def line(self) -> bytes | None:
        """What else belongs to the turn is not known before a resume has settled it."""
        return None


class _Context(msgspec.Struct, frozen=True):
    messages: list[Stored] = []


class _Checkpoint(msgspec.Struct, frozen=True):
    context: _Context = _Context()
    compaction_count: int = 0


class _Command(msgspec.Struct, frozen=True):
    type: str = ""
    content: msgspec.Raw = msgspec.Raw(b"[]")


class _Input(msgspec.Struct, frozen=True):
    command: _Command = _Command()


class _Payload(msgspec.Struct, frozen=True):
    input: _Input = _Input()


class _Record(msgspec.Struct, frozen=True):
    payload: _Payload


class _Pins(msgspec.Struct, frozen=True):
    active_model: str | None = None


class _Runtime(msgspec.Struct, frozen=True):
    session_metadata: _Pins = _Pins()


_chunk = msgspec.json.Decoder(list[Stored])
_record = msgspec.json.Decoder(_Record)


def is_store(folder: Path) -> bool:
    return (folder / "CURRENT").is_file()


def messages(folder: Path) -> Iterator[Stored | Pending]:
    """All messages in order, the chunks one by one; at the end the prompts that only the journal has."""
    try:
        generation, manifest = _newest(folder)
        if manifest.checkpoint.chunks is None:
            yield from _read(generation / manifest.checkpoint.path, _Checkpoint).context.messages
        for digest in manifest.checkpoint.chunks or ():
            yield from _chunk.decode((folder / "chunks" / f"{digest}.json").read_bytes())
        yield from _pending(folder / manifest.recovery_journal_segment.path)
    except _ERRORS as error:
        raise Damaged from error


def model(folder: Path) -> str | None:
    """The model that the session goes on with, whatever else is asked for."""
    try:
        generation, manifest = _newest(folder)
        path = manifest.runtime_state.path if manifest.runtime_state is not None else "runtime-state.json"
        return _read(generation / path, _Runtime).session_metadata.active_model
    except _ERRORS:
        return None


def compacted(folder: Path) -> bool:
    try:
        generation, manifest = _newest(folder)
        return _read(generation / manifest.checkpoint.path, _Checkpoint).compaction_count > 0
    except _ERRORS:
        return False


def _newest(folder: Path) -> tuple[Path, _Manifest]:
    current = _read(folder / "CURRENT", _Current)
    generation = folder / "generations" / current.generation
    return generation, _read(generation / "manifest.json", _Manifest)


def _pending(journal: Path) -> Iterator[Pending]:
    """A last line that is half written counts as little here as it does for Vibe."""
    if not journal.is_file():
        return
    with journal.open("rb") as lines:
        for line in lines:
            if b'"user_message"' not in line:
                continue
            try:
                command = _record.decode(line).payload.input.command
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if command.type == "user_message":
                yield Pending(command.content)


def _read(path: Path, kind: type[T]) -> T:
    return decode(path.read_bytes(), kind)
