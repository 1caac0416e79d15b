"""Files and directories that appear whole or not at all, and that nobody else may read.

What is written goes into a hidden file beside its place and is renamed when it is complete. By default it is
also on the disk by then, so that a power cut leaves the old one or the new one. That is for what is the
user's. ``durable=False`` is for what a power cut may take: a cache, what is checked before it is used, what
belongs to a process that the power cut ends as well.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PART = ".part"
"""How the name of a file ends that is not complete yet."""
_numbers = itertools.count()


@contextmanager
def whole_file(
    path: Path, *, durable: bool = True, mode: int = 0o600, unless: Callable[[], bool] | None = None
) -> Iterator[BinaryIO]:
    """A file to write to; it takes its place, or that of an older one, when the block ends well.

    ``unless`` is asked at the last moment: if it says yes, everything stays as it was.
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
    """The same, but a file that is there stays: of several writers the first one wins."""
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
    """A directory to write into; it takes its place when the block ends well. There must be none yet."""
    make_folder(path.parent)
    part = _beside(path)
    part.mkdir(mode=0o700)
    try:
        yield part
        place(part, path, durable=durable)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def place(part: Path, path: Path, *, durable: bool = True) -> None:
    """Move a complete file or directory to its place. A file takes that of an older one."""
    if durable:
        _sync_tree(part) if part.is_dir() else _sync(part)
    part.replace(path)
    if durable:
        _sync_folder(path.parent)


def place_new(part: Path, path: Path) -> None:
    """Move a complete file to its place. Raises ``FileExistsError`` where something is there."""
    _sync(part)
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # not every file system has links: take the name first
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        part.replace(path)
    part.unlink(missing_ok=True)
    _sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """With those above it, for this user alone."""
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(mode=0o700, exist_ok=True)


def _beside(path: Path) -> Path:
    """Hidden, and of a kind that no CLI takes for a session."""
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
    with suppress(OSError):  # some file systems cannot, and then have nothing to sync
        _sync(folder)
