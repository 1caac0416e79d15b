"""A 3.x store, opened for reading: its newest generation, and where the pieces of it lie.

``CURRENT`` names a generation, its manifest the files and chunks (JSON lists, named by their content) that
make it up. Nothing here checks a digest: what can be read is read.

What a 3.x session needs beside its store: the plugins it was begun with, by their content.

    logs/session/plugins/manifests/<2>/<digest>   a plugin's files, each by its digest
    logs/session/plugins/blobs/<2>/<digest>       the files, and the catalogue of what the plugins offer

All sessions share them. A resume without them is refused; the packages themselves are unpacked anew.

The session store of 3.x: ``unified/<id>``, as far as its messages go.

``CURRENT`` names a generation, its manifest the chunks that hold the messages of all turns that ended, and a
journal. The journal is empty but for a turn that was killed: of that one it holds every step. A resume plays
them again, and where a tool had run, finishes the dead turn before it begins the new one. What the turn will
then hold cannot be told before; that there is one, and what its prompt was, can.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.agents.jsonl import LONGEST
from segue.agents.vibe import blocks, folder
from segue.agents.vibe.anchors import Damaged
from segue.core.json_values import decode

T = TypeVar("T")
STORES = "unified"
CURRENT = "CURRENT"
ERRORS = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


class _Current(msgspec.Struct, frozen=True):
    generation: str
    store_format_minor: int = 0


class _File(msgspec.Struct, frozen=True):
    path: str = ""
    chunks: tuple[str, ...] | None = None


class _Segment(msgspec.Struct, frozen=True):
    path: str = ""


class Manifest(msgspec.Struct, frozen=True):
    checkpoint: _File = _File()
    projection_state: _File = _File()
    runtime_state: _File = _File()
    recovery_journal_segment: _Segment = _Segment()

    def __post_init__(self) -> None:
        """Names in a damaged store must not lead out of it."""
        _inside(self.recovery_journal_segment.path)
        for file in (self.checkpoint, self.projection_state, self.runtime_state):
            for name in (file.path, *(file.chunks or ())):
                _inside(name)


class Store(msgspec.Struct, frozen=True):
    folder: str
    generation: str
    """The generation's folder."""
    manifest: Manifest
    minor: int

    def chunk(self, digest: str) -> str:
        return f"{self.folder}/chunks/{digest}.json"

    def messages(self) -> list[str]:
        """The files that hold the messages, in their order."""
        checkpoint = self.manifest.checkpoint
        if checkpoint.chunks is None:
            return [self.part("checkpoint")]
        return [self.chunk(digest) for digest in checkpoint.chunks]

    def shown(self) -> list[str]:
        """The files that hold what a terminal shows."""
        return [self.chunk(digest) for digest in self.manifest.projection_state.chunks or ()]

    def part(self, name: str) -> str:
        file: _File = getattr(self.manifest, name)
        return f"{self.generation}/{file.path or name.replace('_', '-') + '.json'}"

    @property
    def journal(self) -> str | None:
        """What a turn that has not ended yet did."""
        path = self.manifest.recovery_journal_segment.path
        return f"{self.folder}/{path}" if path else None


def opened(folder: Path) -> Store:
    """Raises one of ``ERRORS``."""
    where = str(folder)
    current = decoded(f"{where}/{CURRENT}", _Current)
    generation = f"{where}/generations/{_inside(current.generation)}"
    manifest = decoded(f"{generation}/manifest.json", Manifest)
    return Store(where, generation, manifest, current.store_format_minor)


def is_store(folder: Path) -> bool:
    return folder.parent.name == STORES


def decoded(path: str, kind: type[T]) -> T:
    return decode(content(path), kind)


def content(path: str, most: int = LONGEST) -> bytes:
    """A file, unless it is larger than anything that is read at once."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if size > most:
            raise ValueError(f"larger than {most >> 20} MB")
        return os.read(file, size)
    finally:
        os.close(file)


def ends(path: str, head: int, tail: int) -> tuple[bytes, int]:
    """The first and the last bytes of a file as one, or all of it; and its size."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if size <= head + tail:
            return os.read(file, size), size
        first = os.read(file, head)
        return first + b"\n" + os.pread(file, tail, size - tail), size
    finally:
        os.close(file)


def _inside(path: str) -> str:
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"{path} leads out of the session")
    return path


class _Plugin(msgspec.Struct, frozen=True):
    content_digest: str = ""


class _Lock(msgspec.Struct, frozen=True):
    plugins: tuple[_Plugin, ...] = ()
    snapshot_digest: str | None = None


class _Runtime(msgspec.Struct, frozen=True):
    plugin_lock: _Lock | None = None


class _Entry(msgspec.Struct, frozen=True):
    sha256: str | None = None


class _Manifest(msgspec.Struct, frozen=True):
    entries: tuple[_Entry, ...] = ()


def plugin_files(home: Path, store: Store, session: str) -> Iterator[Path]:
    root = folder.root_of(home) / "plugins"
    yield from (path for path in (root / "data" / session).rglob("*") if path.is_file())
    try:
        lock = decoded(store.part("runtime_state"), _Runtime).plugin_lock or _Lock()
    except ERRORS:
        return
    yield from _found(root / "blobs", lock.snapshot_digest)
    for plugin in lock.plugins:
        for manifest in _found(root / "manifests", plugin.content_digest):
            yield manifest
            try:
                entries = decoded(str(manifest), _Manifest).entries
            except ERRORS:
                continue
            for entry in entries:
                yield from _found(root / "blobs", entry.sha256)


def _found(where: Path, digest: str | None) -> Iterator[Path]:
    if digest and digest.isalnum() and (where / digest[:2] / digest).is_file():
        yield where / digest[:2] / digest


_ERRORS = (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _CurrentUnified(msgspec.Struct, frozen=True):
    generation: str


class _FileUnified(msgspec.Struct, frozen=True):
    path: str
    chunks: tuple[str, ...] | None = None


class _ManifestUnified(msgspec.Struct, frozen=True):
    checkpoint: _FileUnified
    runtime_state: _FileUnified | None = None
    recovery_journal_segment: _Segment = _Segment()


class StoreFile(msgspec.Struct, frozen=True):
    """One message of a turn that ended. One that was put into a turn has another source than history."""

    message: blocks.BlockMessage
    source: str = "history"

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def opens(self) -> bool:
        return self.role == "user" and self.source == "history"

    def text(self) -> str:
        return blocks.text_of(self.message)

    def line(self) -> bytes | None:
        return blocks.as_line(self.message)


class Pending(msgspec.Struct, frozen=True):
    """The prompt of a turn that was killed: in the journal alone."""

    content: msgspec.Raw
    role: str = "user"
    opens: bool = True

    def text(self) -> str:
        return blocks.text_of(blocks.BlockMessage(role="user", content=self.content))

    def line(self) -> bytes | None:
        """What else belongs to the turn is not known before a resume has settled it."""
        return None


class _Context(msgspec.Struct, frozen=True):
    messages: list[StoreFile] = []


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


class _RuntimeUnified(msgspec.Struct, frozen=True):
    session_metadata: _Pins = _Pins()


_chunk = msgspec.json.Decoder(list[StoreFile])
_record = msgspec.json.Decoder(_Record)


def lies_in_store(folder: Path) -> bool:
    return (folder / "CURRENT").is_file()


def messages_in(folder: Path) -> Iterator[StoreFile | Pending]:
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


def model_of(folder: Path) -> str | None:
    """The model that the session goes on with, whatever else is asked for."""
    try:
        generation, manifest = _newest(folder)
        path = manifest.runtime_state.path if manifest.runtime_state is not None else "runtime-state.json"
        return _read(generation / path, _RuntimeUnified).session_metadata.active_model
    except _ERRORS:
        return None


def compacted(folder: Path) -> bool:
    try:
        generation, manifest = _newest(folder)
        return _read(generation / manifest.checkpoint.path, _Checkpoint).compaction_count > 0
    except _ERRORS:
        return False


def _newest(folder: Path) -> tuple[Path, _ManifestUnified]:
    current = _read(folder / "CURRENT", _CurrentUnified)
    generation = folder / "generations" / current.generation
    return generation, _read(generation / "manifest.json", _ManifestUnified)


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
