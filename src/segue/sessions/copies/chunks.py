"""The parts of a copy: pieces, named by their content, and a manifest that lists them.

A piece is compressed and named by the hash of its plain bytes. So it is stored once, however many copies use
it, and never changes. With SQLite the pieces are files, ``kept/chunks/ab/abcd….zst``; with PostgreSQL, rows
of a table.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol

import msgspec

from segue.core.json_values import decode
from segue.store.store import Store
from segue.system import clock
from segue.system.files import PART, write_whole

SUFFIX = ".zst"
LEVEL = 3
LARGEST = 1024 * 1024
"""The most plain bytes that a piece can have."""
_numbers = count()


class Chunks(Protocol):
    """Stores pieces. ``has`` and ``put`` mark a piece as in use, so that it is not deleted for a while."""

    def has(self, name: str, packed: int) -> bool:
        """Whether it is stored, with at least ``packed`` bytes: a crash may have left an incomplete one."""
        ...

    def lost(self, known: Mapping[str, int]) -> set[str]:
        """The pieces that are missing or too short. ``known``: how many bytes each should have."""
        ...

    def put(self, name: str, packed: bytes) -> None: ...

    def get(self, name: str) -> bytes | None: ...

    def delete(self, names: Iterable[str], unused_s: float) -> None:
        """Delete those of them that were not in use for ``unused_s`` seconds."""
        ...

    def sizes(self) -> dict[str, int]:
        """All pieces, with their compressed sizes."""
        ...


def chunks_of(store: Store, home: Path) -> Chunks:
    """The pieces of a store. ``home``: Segue's directory for copies."""
    return store.shared_chunks() or ChunkFiles(home / "chunks")


def name_of(plain: bytes) -> str:
    return sha256(plain).hexdigest()


def pack(plain: bytes) -> bytes:
    from zstandard import ZstdCompressor  # not loaded if there is nothing to copy

    return ZstdCompressor(level=LEVEL).compress(plain)


def unpack(packed: bytes, name: str, size: int) -> bytes | None:
    """The plain bytes; None if they do not match the name and the size."""
    from zstandard import ZstdDecompressor, ZstdError, get_frame_parameters

    try:
        # decompressing allocates as much memory as the piece declares, so check that first
        if size > LARGEST or get_frame_parameters(packed).content_size != size:
            return None
        plain = ZstdDecompressor().decompress(packed)
    except ZstdError:
        return None
    return plain if name_of(plain) == name else None


class ChunkFiles:
    """One file per piece, written atomically. Its modification time is when it was last in use."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, name: str, packed: int) -> bool:
        try:
            if self._size(name) < packed:
                return False
            os.utime(self._path(name))
        except OSError:
            return False
        return True

    def lost(self, known: Mapping[str, int]) -> set[str]:
        return {name for name, packed in known.items() if self._size(name) < packed}

    def put(self, name: str, packed: bytes) -> None:
        """Not durable: size and hash are checked before it is used, so a power failure does no harm."""
        write_whole(self._path(name), packed, durable=False)

    def get(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, names: Iterable[str], unused_s: float) -> None:
        """Rename each first: if a process began to use it at the same moment, it is renamed back."""
        before = clock.now_s() - unused_s
        for name in names:
            path = self._path(name)
            aside = path if name.startswith(".") else self._path(f".{name}.gone")
            with suppress(OSError):
                if os.stat(path).st_mtime >= before:
                    continue
                os.rename(path, aside)
                if os.stat(aside).st_mtime >= before:
                    os.rename(aside, path)
                else:
                    os.unlink(aside)

    def sizes(self) -> dict[str, int]:
        """Including partial files that a killed process left behind: these belong to no copy."""
        return {entry.name.removesuffix(SUFFIX): entry.stat().st_size for entry in self._entries()}

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        for folder in _listed(self._root):
            if folder.is_dir(follow_symlinks=False):
                for entry in _listed(folder.path):
                    with suppress(OSError):
                        if entry.name.endswith((SUFFIX, PART)) and entry.stat():
                            yield entry

    def _size(self, name: str) -> int:
        try:
            return os.stat(self._path(name)).st_size
        except OSError:
            return -1

    def _path(self, name: str) -> Path:
        file = name if name.endswith(PART) else f"{name}{SUFFIX}"
        return self._root / name.lstrip(".")[:2] / file


def _listed(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece: the hash of its plain bytes, their number, and the number of compressed bytes."""

    name: str
    size: int
    packed: int


class KeptFile(msgspec.Struct, frozen=True, array_like=True):
    """One file as it was when it was copied."""

    path: str
    """Relative to the home."""
    size: int
    changed_ns: int
    inode: int
    tail: str
    """A hash of its last bytes: if they are still in the same place, the file has only grown."""
    chunks: tuple[Chunk, ...]


class Manifest(msgspec.Struct, frozen=True):
    """All files of a session. ``root`` is the session's own file or directory, relative to the home."""

    root: str
    appends: bool
    files: tuple[KeptFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def packed(self) -> int:
        return sum(chunk.packed for chunk in self.unique())

    @property
    def confined(self) -> bool:
        """Whether all its paths stay within the home."""
        return is_below(self.root) and all(is_below(file.path) for file in self.files)

    def unique(self) -> set[Chunk]:
        return {chunk for file in self.files for chunk in file.chunks}


def is_below(path: str) -> bool:
    """Whether a path stays within the home. Others who share the store could write any path."""
    parts = path.split("/")
    return bool(parts[0]) and ".." not in parts and bool(path.strip("./"))


def write_manifest(manifest: Manifest) -> str:
    return msgspec.json.encode(manifest).decode()


def read_manifest(text: str) -> Manifest | None:
    """The manifest; None if it cannot be decoded."""
    try:
        return decode(text, Manifest)
    except (msgspec.MsgspecError, UnicodeError):
        return None
