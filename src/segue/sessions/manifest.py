"""What a copy of a session is made up of: its files, and the pieces of each. Frozen values."""

from __future__ import annotations

import msgspec

from segue.core.decoder import decode


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """A piece: the hash of its plain bytes, how many those are, and how many they are compressed."""

    name: str
    size: int
    packed: int


class KeptFile(msgspec.Struct, frozen=True, array_like=True):
    """One file as it was when it was copied."""

    path: str
    """Below the home."""
    size: int
    changed_ns: int
    inode: int
    tail: str
    """A hash of its last bytes: where these still stand in their place, the file has only grown."""
    chunks: tuple[Chunk, ...]


class Manifest(msgspec.Struct, frozen=True):
    """All of a session. ``root`` is the session's own file or directory, below the home."""

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
        """Whether all it names stays within the home."""
        return is_below(self.root) and all(is_below(file.path) for file in self.files)

    def unique(self) -> set[Chunk]:
        return {chunk for file in self.files for chunk in file.chunks}


def is_below(path: str) -> bool:
    """Whether a path stays within the home. The store may be shared with others, who could name any."""
    parts = path.split("/")
    return bool(parts[0]) and ".." not in parts and bool(path.strip("./"))


def write(manifest: Manifest) -> str:
    return msgspec.json.encode(manifest).decode()


def read(text: str) -> Manifest | None:
    """None for what cannot be understood (any more)."""
    try:
        return decode(text, Manifest)
    except (msgspec.MsgspecError, UnicodeError):
        return None
