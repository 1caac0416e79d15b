"""Files and directories that appear whole or not at all, and that nobody else may read.

What is written goes into a hidden file beside its place and is renamed when it is complete. By default it is
also on the disk by then, so that a power cut leaves the old one or the new one. Only what can be made again,
such as a cache, is written with ``durable=False``.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_numbers = itertools.count()


@contextmanager
def whole_file(
    path: Path, *, durable: bool = True, mode: int = 0o600, unless: Callable[[], bool] | None = None
) -> Iterator[BinaryIO]:
    """A file to write to; it takes its place, or that of an older one, when the block ends well.

    ``unless`` is asked at the last moment: if it says yes, everything stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = _beside(path)
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if unless is None or not unless():
            part.replace(path)
            if durable:
                _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes, *, durable: bool = True, mode: int = 0o600) -> None:
    with whole_file(path, durable=durable, mode=mode) as file:
        file.write(data)


@contextmanager
def whole_tree(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A directory to write into; it takes its place when the block ends well. There must be none yet."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = _beside(path)
    part.mkdir(mode=0o700)
    try:
        yield part
        if durable:
            _sync_tree(part)
        part.rename(path)
        if durable:
            _sync_folder(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _beside(path: Path) -> Path:
    """Hidden, and of a kind that no CLI takes for a session."""
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}.part")


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
