"""What 3.x showed of a session before it compacted it: still on disk, but no longer sent to the model.

A terminal's view of the session keeps the whole dialogue. Of a session that was compacted, what stands there
before the last compaction is all that is left of it, so it is read from here; a resume does not restore it.

The journal of a 3.x store as entries: the turn that was under way when the store was last written.

A resume finishes such a turn first, so what stands here comes back. Only what was told to the agent's core
counts (``core_input``); requests and their copies of the whole history are passed over unread.

A 3.x store walked through piece by piece, in either direction; no piece is read before it is asked for.

A place is a number: which piece, times a million, and which entry in the piece. Pieces are counted in three
ranges: what was shown before a compaction, the messages, the journal of a turn that did not end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import Record, damaged, entry_id
from segue.agents.jsonl import forwards
from segue.agents.vibe import blocks
from segue.agents.vibe.blocks import ERRORS, Block, answer_entries, as_told, images_of, words_of
from segue.agents.vibe.store import ERRORS as ERRORS_
from segue.agents.vibe.store import Store, content, decoded, opened
from segue.core.transcript import Entry

_COMPACTED = b'"kind":"compaction"'


class _Detail(msgspec.Struct, frozen=True):
    tool: str = msgspec.field(name="toolName", default="")
    input: Any = None


class _Output(msgspec.Struct, frozen=True):
    structured: Any = msgspec.field(name="structured_content", default=None)


class _State(msgspec.Struct, frozen=True):
    status: str = ""
    text: str = msgspec.field(name="outputText", default="")
    output: _Output | None = None


class _Shown(msgspec.Struct, frozen=True):
    """Any entry: a message, an effect (a tool that ran), a checkpoint."""

    type: str = ""
    id: str = ""
    role: str = ""
    source: str = ""
    kind: str = ""
    message: str = ""
    content: list[Block] = []
    detail: _Detail | None = None
    state: _State | None = None
    created_ms: int | None = msgspec.field(name="createdAt", default=None)


_as_shown = msgspec.json.Decoder(list[_Shown])


def shown_before(store: Store, *, newest_first: bool = False) -> Iterator[tuple[int, str, int | None]]:
    """The chunks up to the last compaction: number, file, and how many of its entries count (None: all)."""
    chunks = store.shown()
    last = next((n for n in range(len(chunks) - 1, -1, -1) if _COMPACTED in _body(chunks[n])), None)
    if last is None:
        return
    counted = _before(_body(chunks[last]))
    order = range(last, -1, -1) if newest_first else range(last + 1)
    for n in order:
        yield n, chunks[n], counted if n == last else None


def shown_of_chunk(path: str, start: int, count: int | None) -> list[tuple[int, Sequence[Entry]]]:
    try:
        shown = _as_shown.decode(content(path))
    except (OSError, ValueError, *ERRORS) as error:
        return [(start, (damaged(start, f"a chunk that cannot be read: {error}"),))]
    return [(start + n, tuple(_entries(one, start + n))) for n, one in enumerate(shown[:count])]


def _body(path: str) -> bytes:
    try:
        return content(path)
    except (OSError, ValueError):
        return b""


def _before(body: bytes) -> int:
    try:
        shown = _as_shown.decode(body)
    except ERRORS:
        return 0
    return max((n for n, one in enumerate(shown) if one.kind == "compaction"), default=0)


def _entries(one: _Shown, start: int) -> Iterator[Entry]:
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
        yield from _result(one, start)
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


def _result(one: _Shown, start: int) -> Iterator[Entry]:
    state = one.state
    if state is None or state.status in ("", "running", "pending", "in_progress"):
        return
    given = state.output.structured if state.output is not None else None
    yield Entry(
        id=entry_id(start, 1),
        kind="result",
        text=state.text or (as_told(given) if given is not None else ""),
        at_ms=one.created_ms,
        call=one.id,
        failed=state.status != "completed",
        restored=False,
    )


_MARK = b'"type":"core_input"}'


class _Result(msgspec.Struct, frozen=True):
    """Of a request: its parts. Of a tool: what it gave."""

    parts: list[Block] = []
    content: list[Block] = []
    structured_content: Any = None
    error: Any = None
    type: str = ""


class _Command(msgspec.Struct, frozen=True):
    type: str = ""
    content: list[Block] = []
    result: _Result | None = None
    call_id: str = ""


class _Determinism(msgspec.Struct, frozen=True):
    time_unix_ms: int | None = None


class _Input(msgspec.Struct, frozen=True):
    command: _Command = _Command()
    determinism: _Determinism = _Determinism()


class _Payload(msgspec.Struct, frozen=True):
    input: _Input = _Input()


class _Record(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_record = msgspec.json.Decoder(_Record)


def unfinished_records(path: str | None, start: int) -> Iterator[tuple[int, Sequence[Entry]]]:
    """What the turn did up to now, each with its place; nothing where there is no such turn."""
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            for n, line in enumerate(forwards(file)):
                if line.text is not None and line.whole and line.text.endswith(_MARK):
                    found = unfinished_entries(line.text, start + n)
                    if found:
                        yield start + n, found
    except OSError:
        return


def unfinished_entries(text: bytes, start: int) -> Sequence[Entry]:
    try:
        given = _record.decode(text).payload.input
    except ERRORS:
        return ()
    command, at_ms = given.command, given.determinism.time_unix_ms
    result = command.result
    if command.type == "user_message":
        return (
            Entry(
                id=entry_id(start),
                kind="user",
                text=words_of(command.content),
                at_ms=at_ms,
                images=images_of(command.content),
            ),
        )
    if command.type == "completion_succeeded" and result is not None:
        return tuple(answer_entries(result.parts, start, at_ms))
    if command.type in ("tool_succeeded", "tool_failed") and result is not None:
        given_back = result.structured_content if result.structured_content is not None else result.error
        return (
            Entry(
                id=entry_id(start),
                kind="result",
                text=words_of(result.content) or (as_told(given_back) if given_back is not None else ""),
                call=command.call_id,
                failed=command.type == "tool_failed",
                at_ms=at_ms,
            ),
        )
    return ()


PIECE = 1_000_000
MESSAGES, JOURNAL = 100_000 * PIECE, 900_000 * PIECE

Placed = list[tuple[int, Sequence[Entry]]]
Pieces = Iterator[tuple[int, Callable[[], Placed]]]


class _Checkpoint(msgspec.Struct, frozen=True):
    compaction_count: int = 0


def walk_on(folder: Path) -> Iterator[Record]:
    try:
        store = opened(folder)
    except ERRORS_ as error:
        yield _unreadable(error)
        return
    for _, load in _pieces(store):
        for start, entries in load():
            yield Record(start, start + 1, entries)


def walk_back(folder: Path, end: int | None) -> Iterator[Record]:
    try:
        store = opened(folder)
    except ERRORS_ as error:
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
        for n, path, count in shown_before(store):
            yield n * PIECE, _shown(path, n * PIECE, count)
    for n, path in enumerate(store.messages()):
        yield MESSAGES + n * PIECE, _chunk(path, MESSAGES + n * PIECE)
    yield JOURNAL, lambda: list(unfinished_records(store.journal, JOURNAL))


def _reversed(store: Store) -> Pieces:
    yield JOURNAL, lambda: list(unfinished_records(store.journal, JOURNAL))
    for n, path in reversed(list(enumerate(store.messages()))):
        yield MESSAGES + n * PIECE, _chunk(path, MESSAGES + n * PIECE)
    if compacted(store):
        for n, path, count in shown_before(store, newest_first=True):
            yield n * PIECE, _shown(path, n * PIECE, count)


def compacted(store: Store) -> bool:
    try:
        return decoded(store.part("checkpoint"), _Checkpoint).compaction_count > 0
    except ERRORS_:
        return False


def _chunk(path: str, start: int) -> Callable[[], Placed]:
    def load() -> Placed:
        try:
            return blocks.of_chunk(content(path), start)
        except (OSError, ValueError) as error:
            return [(start, (damaged(start, f"a chunk that cannot be read: {_why(error)}"),))]

    return load


def _shown(path: str, start: int, count: int | None) -> Callable[[], Placed]:
    return lambda: shown_of_chunk(path, start, count)


def _unreadable(error: Exception) -> Record:
    return Record(0, 0, (damaged(0, f"it cannot be read: {_why(error)}"),))


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
