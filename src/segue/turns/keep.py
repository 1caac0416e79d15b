"""What stays of a run: its raw stream, as evidence. Cleaned of secrets, compressed, and bounded in number."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segue.core.redact import Redactor

STREAMS = ("stdout", "stderr")
PROCESS = "process.json"
FORGOTTEN_S = 7 * 24 * 3600
KEPT_BYTES = 64 * 1024 * 1024
COMPRESS_BYTES = 64 * 1024
RUNS_KEPT = 200
CHUNK = 8 * 1024 * 1024


def settle(run_dir: Path, redactor: Redactor) -> str | None:
    """After the end: take secrets out of what the CLI printed, compress what is large, drop the rest.

    A stream in which a secret was met is not kept at all: it may stand there in fragments as well. Nor is
    one that is too large to look through. None, or what went wrong: that fails nothing.
    """
    trouble: OSError | None = None
    try:
        if not run_dir.exists():  # nothing was started
            return None
        paths = sorted(run_dir.iterdir())
        _bound(run_dir.parent)
    except OSError as error:
        trouble, paths = error, []
    for path in paths:
        try:
            _settle(path, redactor)
        except OSError as error:
            trouble = error
    return f"{run_dir} could not be cleared up: {trouble.strerror or trouble}" if trouble else None


def _settle(path: Path, redactor: Redactor) -> None:
    if path.name not in STREAMS or (path.name == "stdout" and redactor.found) or _too_large(path):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return
    try:
        _clean(path, redactor)
    except OSError:  # rather lose it than leave a secret in it
        path.unlink()
        raise
    _compress(path)


def _too_large(path: Path) -> bool:
    return path.stat().st_size > KEPT_BYTES


def _clean(path: Path, redactor: Redactor) -> None:
    """Line by line, so that memory stays flat; the file is written anew only if a secret stands in it."""
    with path.open("rb") as source:
        if all(redactor.bytes(line) == line for line in source):
            return
    part = path.with_name(path.name + ".part")
    with _whole(part), path.open("rb") as source, open(part, "wb", opener=_private) as target:
        for line in source:
            target.write(redactor.bytes(line))
    part.replace(path)


def _compress(path: Path) -> None:
    if path.stat().st_size < COMPRESS_BYTES:
        return
    target = path.with_name(path.name + ".gz")
    with (
        _whole(target),
        path.open("rb") as source,
        open(target, "wb", opener=_private) as raw,
        gzip.GzipFile(fileobj=raw, compresslevel=1, mode="wb") as packed,
    ):
        shutil.copyfileobj(source, packed, CHUNK)
    path.unlink()


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Nothing stays of a file that could not be written to its end."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


def _bound(runs: Path) -> None:
    """Run ids sort by time: the first names are the oldest. One that was not settled may still run."""
    names = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir())
    for name in names[:-RUNS_KEPT]:
        if not (runs / name / PROCESS).exists() or _age_s(runs / name) > FORGOTTEN_S:
            shutil.rmtree(runs / name, ignore_errors=True)


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
