"""Reads files whose names or contents somebody else may have chosen, such as those of a cloned repository.

The path is walked link by link, so that the caller can judge each link. What is opened afterwards is the path
without links, and no link on it is followed any more: one that was put there meanwhile is an error. Only
regular files are opened, and a limited number of bytes is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from segue.core.errors import Misuse

LARGEST = 1 << 20
"""The most bytes of a file that is read as text."""
MOST_LINKS = 40
LONGEST = 4096
"""The longest path, in bytes."""
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Link(NamedTuple):
    """A link that a path goes through."""

    folder: Path
    """Where it is; this path has no links."""
    name: str
    target: Path
    """Where it leads; this path has no links either."""
    is_file: bool
    """It is the last part of the path."""


class Followed(NamedTuple):
    """A path without links."""

    path: Path
    links: tuple[Link, ...]
    """Those on the way, the innermost first."""

    @property
    def is_link(self) -> bool:
        """Whether the file itself was a link."""
        return any(link.is_file for link in self.links)


def follow(path: Path) -> Followed:
    """Follow all links of an absolute path. Raises ``OSError``, also if there is no such file."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "the name contains a NUL character")
    if len(os.fsencode(path)) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    links: list[Link] = []
    left = [MOST_LINKS]

    def walk(base: str, parts: Sequence[str], is_end: bool) -> str:
        for n, part in enumerate(parts, 1):
            if part == "..":
                base = os.path.dirname(base)
                continue
            at = os.path.join(base, part)
            target = _target(at)
            if target is None:
                base = at
                continue
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            is_file = is_end and n == len(parts)
            led = walk("/" if target.startswith("/") else base, _parts(target), is_file)
            links.append(Link(Path(base), part, Path(led), is_file))
            base = led
        return base

    return Followed(Path(walk("/", _parts(os.fspath(path)), is_end=True)), tuple(links))


def read_unlinked(path: Path, most: int = LARGEST) -> bytes:
    """The contents of a regular file with at most ``most`` bytes, whose absolute path has no links.

    Raises ``Misuse`` with the reason if it is anything else, and ``OSError``.
    """
    *parents, name = _parts(os.fspath(path)) or [""]
    folder = os.open("/", _FOLDER)
    try:
        for part in parents:
            folder, before = _opened(part, _FOLDER, folder), folder
            os.close(before)
        _refuse(os.stat(name or "/", dir_fd=folder, follow_symlinks=False), most)
        opened = _opened(name, _FILE, folder)
    finally:
        os.close(folder)
    with open(opened, "rb") as file:
        _refuse(os.fstat(opened), most)
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(most)
    return data


def is_below(path: Path, folder: Path) -> bool:
    """Whether a path is the folder or in it. Neither has links."""
    return path == folder or folder in path.parents


def working_tree(directory: Path) -> Path:
    """The root of the working tree that contains the directory; without version control, the directory."""
    return version_controlled(directory) or directory


def version_controlled(directory: Path) -> Path | None:
    """The root of the working tree that contains the directory; None: there is no version control."""
    for each in (directory, *directory.parents):
        if (each / ".git").exists():
            return each
    return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _target(path: str) -> str | None:
    """Where a link leads, as it is written; None: it is no link."""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _opened(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _linked() from None
        raise


def _refuse(found: os.stat_result, most: int) -> None:
    """Raise ``Misuse`` if it is no regular file, or too large."""
    if stat.S_ISLNK(found.st_mode):
        raise _linked()
    if stat.S_ISDIR(found.st_mode):
        raise Misuse("it is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise Misuse("it is not a regular file")
    if found.st_size > most:
        raise _too_large(most)


def _linked() -> Misuse:
    return Misuse("there is a link on its path now, which is not followed")


def _too_large(most: int) -> Misuse:
    return Misuse(f"it has more than {most >> 20:,} MB")
