"""Rollouts as files: what their names tell, which one is a session's now, and how they are read and written.

``sessions/Y/M/D/rollout-<time>-<thread>.jsonl``. A thread that was taken back to an earlier turn goes on in a
file of its own, whose name adds an underscore and that file's id. What has not been used for days may be
packed: ``.jsonl.zst``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

PACKED = ".zst"
UNPACKED_BYTES = 1 << 30
"""What is packed is unpacked up to this size."""
_KEPT_IN_MEMORY = 1 << 23
_PIECE = 1 << 12
_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"rollout-(?P<time>.+?)-(?P<thread>{_ID})(?:_(?P<own>{_ID}))?\.jsonl(?P<packed>\.zst)?")


def newest(home: Path, thread: str) -> Path | None:
    """The file in which a thread goes on; where both are there, the plain one counts, as for Codex."""
    found = (path for path in _named(home, thread) if thread_of(path) == thread)
    return max(found, key=_rank, default=None)


def of_rollout(home: Path, rollout: str) -> Path | None:
    """The file with this id of its own, which is its thread's unless the name says otherwise."""
    found = (path for path in _named(home, rollout) if _own(path) == rollout)
    return max(found, key=_rank, default=None)


def thread_of(path: Path) -> str:
    """The thread a file belongs to; empty when its name does not tell."""
    named = _NAME.fullmatch(path.name)
    return named["thread"] if named else ""


def place(home: Path, thread: str, now: datetime) -> Path:
    """Where a rollout that begins now stands."""
    return home / "sessions" / f"{now:%Y/%m/%d}" / f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{thread}.jsonl"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file to read in, unpacked if it was packed. All that can be wrong with it is an ``OSError``."""
    if path.suffix != PACKED:
        with path.open("rb") as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(max_size=_KEPT_IN_MEMORY) as plain:
        for chunk in _unpacked(path):
            plain.write(chunk)
        plain.seek(0)
        yield plain


def unpack(path: Path) -> Path:
    """Put the plain file in the place of a packed one, as Codex does before it goes on in it."""
    plain = path.with_suffix("")
    if not plain.exists():
        write(plain, _unpacked(path))
    path.unlink(missing_ok=True)
    return plain


def write(path: Path, chunks: Iterable[bytes]) -> None:
    """Whole or not at all, and for nobody else to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _named(home: Path, some_id: str) -> Iterator[Path]:
    if not re.fullmatch(_ID, some_id):
        return iter(())
    return home.glob(f"sessions/*/*/*/rollout-*{some_id}*.jsonl*")


def _own(path: Path) -> str:
    named = _NAME.fullmatch(path.name)
    return (named["own"] or named["thread"]) if named else ""


def _rank(path: Path) -> tuple[str, bool, bool]:
    named = _NAME.fullmatch(path.name)
    return (named["time"], named["own"] is not None, named["packed"] is None) if named else ("", False, False)


def _unpacked(path: Path) -> Iterator[bytes]:
    """Piece by piece; one that breaks off is an error, because what is missing would be lost unseen."""
    import zstandard

    unpacker, size = zstandard.ZstdDecompressor(), 0
    frame = unpacker.decompressobj()
    try:
        with path.open("rb") as packed:
            while piece := frame.unused_data or packed.read(_PIECE):
                frame = unpacker.decompressobj() if frame.eof else frame
                plain = frame.decompress(piece)
                size += len(plain)
                if size > UNPACKED_BYTES:
                    raise OSError(f"{path.name} is too large to unpack")
                yield plain
    except zstandard.ZstdError as error:
        raise OSError(f"{path.name} cannot be unpacked: {error}") from error
    if not frame.eof:
        raise OSError(f"{path.name} breaks off")
