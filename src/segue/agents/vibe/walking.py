"""A 3.x store walked through piece by piece, in either direction; no piece is read before it is asked for.

A place is a number: which piece, times a million, and which entry in the piece. Pieces are counted in three
ranges: what was shown before a compaction, the messages, the journal of a turn that did not end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from segue.agents.reader import Record, damaged
from segue.agents.vibe import items, shown, unfinished
from segue.agents.vibe.store import ERRORS, Store, content, decoded, opened
from segue.core.transcript import Entry

PIECE = 1_000_000
MESSAGES, JOURNAL = 100_000 * PIECE, 900_000 * PIECE

Placed = list[tuple[int, Sequence[Entry]]]
Pieces = Iterator[tuple[int, Callable[[], Placed]]]


class _Checkpoint(msgspec.Struct, frozen=True):
    compaction_count: int = 0


def forwards(folder: Path) -> Iterator[Record]:
    try:
        store = opened(folder)
    except ERRORS as error:
        yield _unreadable(error)
        return
    for _, load in _pieces(store):
        for start, entries in load():
            yield Record(start, start + 1, entries)


def backwards(folder: Path, end: int | None) -> Iterator[Record]:
    try:
        store = opened(folder)
    except ERRORS as error:
        yield _unreadable(error)
        return
    for first, load in _reversed(store):
        if end is not None and first >= end:
            continue
        for start, entries in reversed(load()):
            if end is None or start < end:
                yield Record(start, start + 1, entries)


def _pieces(store: Store) -> Pieces:
    if compacted(store):
        for n, path, count in shown.before(store):
            yield n * PIECE, _shown(path, n * PIECE, count)
    for n, path in enumerate(store.messages()):
        yield MESSAGES + n * PIECE, _chunk(path, MESSAGES + n * PIECE)
    yield JOURNAL, lambda: list(unfinished.records(store.journal, JOURNAL))


def _reversed(store: Store) -> Pieces:
    yield JOURNAL, lambda: list(unfinished.records(store.journal, JOURNAL))
    for n, path in reversed(list(enumerate(store.messages()))):
        yield MESSAGES + n * PIECE, _chunk(path, MESSAGES + n * PIECE)
    if compacted(store):
        for n, path, count in shown.before(store, newest_first=True):
            yield n * PIECE, _shown(path, n * PIECE, count)


def compacted(store: Store) -> bool:
    try:
        return decoded(store.part("checkpoint"), _Checkpoint).compaction_count > 0
    except ERRORS:
        return False


def _chunk(path: str, start: int) -> Callable[[], Placed]:
    def load() -> Placed:
        try:
            return items.of_chunk(content(path), start)
        except (OSError, ValueError) as error:
            return [(start, (damaged(start, f"a chunk that cannot be read: {_why(error)}"),))]

    return load


def _shown(path: str, start: int, count: int | None) -> Callable[[], Placed]:
    return lambda: shown.of_chunk(path, start, count)


def _unreadable(error: Exception) -> Record:
    return Record(0, 0, (damaged(0, f"it cannot be read: {_why(error)}"),))


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
