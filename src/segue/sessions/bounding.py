"""Keeps the copies within their bounds, and collects the pieces that no copy needs any more."""

from __future__ import annotations

import os
import time
from pathlib import Path

from segue.config.schema import Keep
from segue.sessions import manifest as manifests
from segue.sessions.chunks import Chunks
from segue.store import kept
from segue.store.store import Store

MB = 1024 * 1024
DAY_S = 24 * 3600
ROOM = 0.9
"""What is too much is brought down to this part of the bound, so that not every turn has to do it again."""
GARBAGE = 0.1
"""The part of the bound that may be garbage before it is collected ahead of its time."""
UNUSED_S = 600
"""Somebody may just be making a copy of pieces that no manifest names yet."""
MARK = "swept"


def bound(store: Store, chunks: Chunks, limits: Keep, directory: Path) -> None:
    """After each copy. Mostly that is one look at sums."""
    now_ms = time.time_ns() // 1_000_000
    most, oldest_ms = limits.max_mb * MB, now_ms - limits.days * DAY_S * 1000
    sums = kept.totals(store.db)
    too_old = sums.oldest_ms is not None and sums.oldest_ms < oldest_ms
    dropped = 0
    if too_old or sums.packed > most:
        too_much = sums.packed - round(most * ROOM) if sums.packed > most else 0
        dropped = kept.drop_oldest(store.db, oldest_ms, too_much, now_ms - DAY_S * 1000)
    if dropped or sums.garbage > most * GARBAGE or _due(directory / MARK):
        sweep(store, chunks, directory)


def sweep(store: Store, chunks: Chunks, directory: Path, unused_s: float = UNUSED_S) -> None:
    """Delete the pieces that belong to no copy."""
    _mark(directory / MARK)
    there = chunks.sizes()  # before the copies are looked at: what comes later is none of ours
    copies = [manifests.read(text) for text in kept.manifests(store.db)]
    needed = {chunk.name for copy in copies if copy is not None for chunk in copy.unique()}
    if None in copies:  # made by another version: nobody knows what it needs
        return
    chunks.delete([name for name in there if name not in needed], unused_s)
    kept.no_garbage(store.db)


def _due(mark: Path) -> bool:
    """Once a day at most; for a store that was just made, tomorrow."""
    try:
        return time.time() - os.stat(mark).st_mtime > DAY_S
    except OSError:
        _mark(mark)
        return False


def _mark(mark: Path) -> None:
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(mark)
