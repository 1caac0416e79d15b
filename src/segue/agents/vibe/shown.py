"""What 3.x showed of a session before it compacted it: still on disk, but no longer sent to the model.

A terminal's view of the session keeps the whole dialogue. Of a session that was compacted, what stands there
before the last compaction is all that is left of it, so it is read from here; a resume does not restore it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from segue.agents.reader import damaged, place
from segue.agents.vibe.items import ERRORS, Block, images, told, words
from segue.agents.vibe.store import Store, content
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


_shown = msgspec.json.Decoder(list[_Shown])


def before(store: Store, *, newest_first: bool = False) -> Iterator[tuple[int, str, int | None]]:
    """The chunks up to the last compaction: number, file, and how many of its entries count (None: all)."""
    chunks = store.shown()
    last = next((n for n in range(len(chunks) - 1, -1, -1) if _COMPACTED in _body(chunks[n])), None)
    if last is None:
        return
    counted = _before(_body(chunks[last]))
    order = range(last, -1, -1) if newest_first else range(last + 1)
    for n in order:
        yield n, chunks[n], counted if n == last else None


def of_chunk(path: str, start: int, count: int | None) -> list[tuple[int, Sequence[Entry]]]:
    try:
        shown = _shown.decode(content(path))
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
        shown = _shown.decode(body)
    except ERRORS:
        return 0
    return max((n for n, one in enumerate(shown) if one.kind == "compaction"), default=0)


def _entries(one: _Shown, start: int) -> Iterator[Entry]:
    if one.type == "message" and one.role in ("user", "assistant"):
        yield Entry(
            id=place(start),
            kind="user" if one.role == "user" else "assistant",
            text=words(one.content),
            at_ms=one.created_ms,
            native=one.id,
            images=images(one.content),
            restored=False,
        )
    elif one.type == "effect" and one.detail is not None:
        yield Entry(
            id=place(start),
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
            id=place(start),
            kind="boundary",
            text=one.message,
            at_ms=one.created_ms,
            native=one.id,
            restored=False,
        )
    else:
        yield Entry(id=place(start), kind="unknown", label=one.type, restored=False)


def _result(one: _Shown, start: int) -> Iterator[Entry]:
    state = one.state
    if state is None or state.status in ("", "running", "pending", "in_progress"):
        return
    given = state.output.structured if state.output is not None else None
    yield Entry(
        id=place(start, 1),
        kind="result",
        text=state.text or (told(given) if given is not None else ""),
        at_ms=one.created_ms,
        call=one.id,
        failed=state.status != "completed",
        restored=False,
    )
