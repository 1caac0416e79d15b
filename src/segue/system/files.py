"""Files and directories that appear whole or not at all, and that only this user can read.

Data is written to a hidden file in the same directory, which is renamed when it is complete. By default it is
synced to disk first, so that a power cut leaves the old one or the new one. That is for the user's data.
``durable=False`` is for what may be lost in a power cut: a cache, data that is checked before use, files of a
process that the power cut ends as well.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PART = ".part"
"""The suffix of a file that is not complete yet."""
_numbers = itertools.count()


@contextmanager
def whole_file(
    path: Path, *, durable: bool = True, mode: int = 0o600, unless: Callable[[], bool] | None = None
) -> Iterator[BinaryIO]:
    """A file to write to; it appears at ``path``, replacing an older one, when the block succeeds.

    ``unless`` is called at the last moment: if it returns true, nothing changes.
    """
    make_folder(path.parent)
    part = _beside(path)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            yield file
        if durable:
            _sync(part)
        if unless is None or not unless():
            part.replace(path)
            if durable:
                _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
    with whole_file(path, durable=durable, mode=mode) as file:
        file.write(data)


def write_new(path: Path, data: bytes) -> None:
    """The same, but an existing file is kept: of several writers the first one wins."""
    make_folder(path.parent)
    part = _beside(path)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
        with suppress(FileExistsError):
            place_new(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def whole_tree(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A directory to write into; it appears at ``path``, which must not exist, when the block succeeds."""
    import shutil

    make_folder(path.parent)
    part = _beside(path)
    part.mkdir(mode=0o700)
    try:
        yield part
        place(part, path, durable=durable)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def place(part: Path, path: Path, *, durable: bool = True) -> None:
    """Move a complete file or directory to its place. A file replaces an older one."""
    if durable:
        _sync_tree(part) if part.is_dir() else _sync(part)
    part.replace(path)
    if durable:
        _sync_folder(path.parent)


def place_new(part: Path, path: Path) -> None:
    """Move a complete file to its place. Raises ``FileExistsError`` if the path exists."""
    _sync(part)
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # not every file system has links: reserve the name first
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        part.replace(path)
    part.unlink(missing_ok=True)
    _sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Create a directory and its parents, for this user alone."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)


def _beside(path: Path) -> Path:
    """A hidden name in the same directory, which no CLI takes for a session."""
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}{PART}")


def _sync_tree(folder: Path) -> None:
    for where, _, names in os.walk(folder):
        for name in names:
            _sync(Path(where) / name)
        _sync_folder(Path(where))


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems cannot sync a directory, and need not
        _sync(folder)


def which(name: str, path: str | None) -> str | None:
    """The program of that name on the search path, or at that place. (``shutil`` takes longer to load.)"""
    if os.path.dirname(name):
        return name if _is_program(name) else None
    folders = (os.defpath if path is None else path).split(os.pathsep) if path != "" else []
    return next(filter(_is_program, (os.path.join(folder, name) for folder in folders)), None)


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)
