"""Reads a 3.x store forwards and backwards, piece by piece and lazily.

A place is a number: the piece's number times a million, plus the entry's number in it. Pieces are counted in
three ranges: what was shown before a compaction, the messages, the journal of an unfinished turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import Record, damaged, entry_id
from segue.agents.vibe import blocks
from segue.agents.vibe.blocks import answer_entries, images_of, output_text, words_of
from segue.agents.vibe.meta import content
from segue.agents.vibe.store import ERRORS, JournalRecord, Shown, Store, journal_records, opened
from segue.core.transcript import Entry

PIECE = 1_000_000
MESSAGES, JOURNAL = 100_000 * PIECE, 900_000 * PIECE
_COMPACTED = b'"kind":"compaction"'

Placed = list[tuple[int, Sequence[Entry]]]
Pieces = Iterator[tuple[int, Callable[[], Placed]]]

_shown_entries = msgspec.json.Decoder(list[Shown])


def forward(folder: Path) -> Iterator[Record]:
    try:
        store = opened(folder)
    except ERRORS as error:
        yield _unreadable(error)
        return
    for _, load in _pieces(store):
        for start, entries in load():
            yield Record(start, start + 1, entries)


def backward(folder: Path, end: int | None) -> Iterator[Record]:
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
    if store.compacted():
        for n, path, count in _shown_before(store):
            yield n * PIECE, _shown(path, n * PIECE, count)
    for n, path in enumerate(store.messages()):
        yield MESSAGES + n * PIECE, _chunk(path, MESSAGES + n * PIECE)
    yield JOURNAL, lambda: list(unfinished(store))


def _reversed(store: Store) -> Pieces:
    yield JOURNAL, lambda: list(unfinished(store))
    for n, path in reversed(list(enumerate(store.messages()))):
        yield MESSAGES + n * PIECE, _chunk(path, MESSAGES + n * PIECE)
    if store.compacted():
        for n, path, count in _shown_before(store, newest_first=True):
            yield n * PIECE, _shown(path, n * PIECE, count)


def _chunk(path: str, start: int) -> Callable[[], Placed]:
    def load() -> Placed:
        try:
            return blocks.of_chunk(content(path), start)
        except (OSError, ValueError) as error:
            return [_lost(start, error)]

    return load


def _shown(path: str, start: int, count: int | None) -> Callable[[], Placed]:
    def load() -> Placed:
        try:
            shown = _shown_entries.decode(content(path))
        except ERRORS as error:
            return [_lost(start, error)]
        return [(start + n, tuple(_shown_entry(one, start + n))) for n, one in enumerate(shown[:count])]

    return load


def _lost(start: int, error: Exception) -> tuple[int, Sequence[Entry]]:
    return start, (damaged(start, f"a chunk that cannot be read: {_why(error)}"),)


def _unreadable(error: Exception) -> Record:
    return Record(0, 0, (damaged(0, f"it cannot be read: {_why(error)}"),))


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# --- what was shown before a compaction ------------------------------------------------------------
#
# A terminal's view of the session keeps the whole dialogue. If a session was compacted, only this view still
# has what came before the last compaction, so it is read from here; a resume does not restore it.


def _shown_before(store: Store, *, newest_first: bool = False) -> Iterator[tuple[int, str, int | None]]:
    """The chunks up to the last compaction: number, file, and how many of its entries count (None: all)."""
    chunks = store.shown()
    last = next((n for n in range(len(chunks) - 1, -1, -1) if _COMPACTED in _body(chunks[n])), None)
    if last is None:
        return
    counted = _before_compaction(_body(chunks[last]))
    order = range(last, -1, -1) if newest_first else range(last + 1)
    for n in order:
        yield n, chunks[n], counted if n == last else None


def _body(path: str) -> bytes:
    try:
        return content(path)
    except (OSError, ValueError):
        return b""


def _before_compaction(body: bytes) -> int:
    try:
        shown = _shown_entries.decode(body)
    except ERRORS:
        return 0
    return max((n for n, one in enumerate(shown) if one.kind == "compaction"), default=0)


def _shown_entry(one: Shown, start: int) -> Iterator[Entry]:
    if one.type == "message" and one.role in ("user", "assistant"):
        yield Entry(
            id=entry_id(start),
            kind="user" if one.role == "user" else "assistant",
            text=words_of(one.content),
            at_ms=one.created_ms,
            native=one.id,
            images=images_of(one.content),
            restored=False,
        )
    elif one.type == "effect" and one.detail is not None:
        yield Entry(
            id=entry_id(start),
            kind="call",
            at_ms=one.created_ms,
            native=one.id,
            tool=one.detail.tool,
            input=one.detail.input,
            call=one.id,
            restored=False,
        )
        yield from _shown_result(one, start)
    elif one.type == "checkpoint":
        yield Entry(
            id=entry_id(start),
            kind="boundary",
            text=one.message,
            at_ms=one.created_ms,
            native=one.id,
            restored=False,
        )
    else:
        yield Entry(id=entry_id(start), kind="unknown", label=one.type, restored=False)


def _shown_result(one: Shown, start: int) -> Iterator[Entry]:
    state = one.state
    if state is None or state.status in ("", "running", "pending", "in_progress"):
        return
    output = state.output.structured if state.output is not None else None
    yield Entry(
        id=entry_id(start, 1),
        kind="result",
        text=state.text or (output_text(output) if output is not None else ""),
        at_ms=one.created_ms,
        call=one.id,
        failed=state.status != "completed",
        restored=False,
    )


# --- the unfinished turn ---------------------------------------------------------------------------


def unfinished(store: Store) -> Iterator[tuple[int, Sequence[Entry]]]:
    """The entries of an unfinished turn, each with its place. A resume finishes it first and restores them.

    Only the inputs of the agent's core are used.
    """
    try:
        for n, record in journal_records(store.journal):
            if entries := journal_entries(record, JOURNAL + n):
                yield JOURNAL + n, entries
    except OSError:
        return


def journal_entries(record: JournalRecord, start: int = JOURNAL) -> Sequence[Entry]:
    given = record.payload.input
    if record.type != "core_input" or given is None:
        return ()
    command, at_ms = given.command, given.determinism.time_unix_ms
    result = command.result
    if command.type == "user_message":
        content = blocks.blocks_of(command.content) or ()
        words, images = words_of(content), images_of(content)
        return (Entry(id=entry_id(start), kind="user", text=words, at_ms=at_ms, images=images),)
    if command.type == "completion_succeeded" and result is not None:
        return tuple(answer_entries(result.parts, start, at_ms))
    if command.type in ("tool_succeeded", "tool_failed") and result is not None:
        output = result.structured_content if result.structured_content is not None else result.error
        return (
            Entry(
                id=entry_id(start),
                kind="result",
                text=words_of(result.content) or (output_text(output) if output is not None else ""),
                call=command.call_id,
                failed=command.type == "tool_failed",
                at_ms=at_ms,
            ),
        )
    return ()
