"""A 3.x store, opened for reading: its newest generation, and where the pieces of it lie.

``CURRENT`` names a generation, its manifest the files and chunks (JSON lists, named by their content) that
make it up. Nothing here checks a digest: what can be read is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.agents.records import LONGEST
from segue.core.decoder import decode

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
