"""Writes a new 3.x store, cut or repaired: in the state in which Vibe itself begins one, with other messages.

Imported from a 2.x directory, a session would lose its plugins, and with them a part of its system prompt:
the prompt cache would not match. So a store is written as a store. Every file is named in another one with
its sha256; ``CURRENT`` and the manifest must be in canonical form (sorted, compact), the rest need not be.
Unknown fields are copied unchanged; a format newer than the known one is not touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from segue.agents.vibe import blocks
from segue.agents.vibe.meta import content
from segue.agents.vibe.store import CURRENT, ERRORS, FORMAT, KNOWN_MINOR, Store, opened, read
from segue.core.errors import Broken
from segue.core.json_values import as_table
from segue.system import clock
from segue.system.files import whole_tree

Record = dict[str, Any]
_FIRST = "0" * 16
_JOURNAL = f"journal/{1:016d}.jsonl"
_SEALED = 64 * 1024
"""A chunk is closed when it reaches this size."""


class Cut(msgspec.Struct, frozen=True):
    """What a cut store keeps: how many messages, and how many prompts it leaves out."""

    session: str
    kept: int
    prompts_left_out: int
    cwd: str
    model: str | None


def write_cut(folder: Path, cut: Cut) -> bool:
    """Write a store beside the old one, completely or not at all. Return whether it was written."""
    target = folder.with_name(cut.session)
    if target.exists():
        return False

    def fill(messages: _Chunks, shown: _Chunks) -> None:
        messages.add_all(islice(_items(source.messages()), cut.kept))
        shown.add_all(_shown_before_cut(source, cut, records["current"]["session_id"]))

    try:
        source = opened(folder)
        records = _records(source, cut.session, cut.cwd, cut.model)
        if records["manifest"]["execution_state"] != "quiescent":
            raise ValueError("it has an unfinished turn")
        if None in (source.manifest.checkpoint.chunks, source.manifest.projection_state.chunks):
            raise ValueError("its messages are not in chunks")
        _write(target, source, records, fill)
    except (LookupError, TypeError, *ERRORS):
        return False
    return True


def write_repaired(source: Store, target: Path, repaired: Callable[[], Iterable[bytes]]) -> bool:
    """Write a store with these messages, completely or not at all. False if its records are too damaged.

    What a terminal shows is rebuilt from the messages: a store keeps it separately.
    """
    now_ms = clock.now_ms()

    def fill(messages: _Chunks, shown: _Chunks) -> None:
        for n, message in enumerate(repaired()):
            messages.add(message)
            shown.add_all(_as_shown(message, target.name, n, now_ms))
        if messages.empty:
            raise Broken("nothing can be saved")

    try:
        pins = as_table(read(source.part("runtime_state"), Record)["session_metadata"])
        records = _records(source, target.name, pins.get("cwd"), None)
        _write(target, source, records, fill)
    except (LookupError, TypeError, *ERRORS):
        return False
    return True


# --- the records of a generation -------------------------------------------------------------------


def _records(source: Store, session: str, cwd: str | None, model: str | None) -> dict[str, Record]:
    """Everything except the messages, as Vibe would write it for a session that has just begun."""
    current = read(f"{source.folder}/{CURRENT}", Record)
    if current["store_format"] != FORMAT or current["store_format_minor"] > KNOWN_MINOR:
        raise ValueError("an unknown format")
    return {
        "current": current,
        "manifest": read(f"{source.generation}/manifest.json", Record),
        "checkpoint": _checkpoint(read(source.part("checkpoint"), Record)),
        "projection_state": _projection(read(source.part("projection_state"), Record), session),
        "runtime_state": _runtime(read(source.part("runtime_state"), Record), session, cwd, model),
    }


def _checkpoint(old: Record) -> Record:
    """The checkpoint without the last turn: its id, and how full the window was."""
    gone = ("last_finished_turn_id", "last_reported_context_tokens")
    context = as_table(old.get("context")) | {"messages": []}
    kept = {key: value for key, value in old.items() if key not in gone}
    return kept | {"turn": {"type": "idle"}, "context": context}


def _projection(old: Record, session: str) -> Record:
    """What a terminal shows of the session."""
    ids = {"id": session, "rootSessionId": session, "parentSessionId": None}
    shown = old["snapshot"]["session"] | ids | {"contextUsage": None, "tokenUsage": None}
    snapshot = old["snapshot"] | {"session": shown, "latestTurn": None}
    return old | {"session_id": session, "snapshot": snapshot, "snapshot_sequence": 0, "watermark": 0}


def _runtime(old: Record, session: str, cwd: str | None, model: str | None) -> Record:
    """Keeps plugins, settings and instructions; leaves out what the session did."""
    if old["subagents"] is not None and old["subagents"]["children"]:
        raise ValueError("it has subagents' sessions")
    pins = {"root_session_id": session, "parent_session_id": None, "cwd": cwd}
    pins |= {"active_model": model} if model else {}
    lists = ("actions", "callbacks", "children", "command_receipts", "processes", "provider_operations")
    empty: Record = {key: [] for key in (*lists, "submitted_process_notifications")}
    begun = {
        "session_id": session,
        "identity": _identity(session),
        "session_metadata": old["session_metadata"] | pins,
        "import_provenance": None,
        "pending_transition": None,
        "subagents": None,
        "core_task_id": None,
        "core_last_input_id": 0,
        "snapshot_sequence": 0,
    }
    return old | empty | begun


def _identity(session: str) -> Record:
    return {
        "depth": 0,
        "kind": "root",
        "parent_session_id": None,
        "root_session_id": session,
        "session_id": session,
    }


# --- the messages, and what is shown of them -------------------------------------------------------


def _items(files: Iterable[str]) -> Iterator[bytes]:
    for file in files:
        yield from map(bytes, blocks.raws_of(content(file)))


def _shown_before_cut(source: Store, cut: Cut, old_id: str) -> list[bytes]:
    """What a terminal shows before the cut. Counted from the end: after a compaction it has more entries
    than there are messages."""
    shown = list(_items(source.shown()))
    end, left = len(shown), cut.prompts_left_out
    while end and left:
        end -= 1
        entry = msgspec.json.decode(shown[end], type=Record)
        left -= entry.get("type") == "message" and entry.get("role") == "user"
    return [piece.replace(old_id.encode(), cut.session.encode()) for piece in shown[:end]]


def _as_shown(message: bytes, session: str, number: int, now_ms: int) -> Iterator[bytes]:
    """What a terminal shows of a message: its text."""
    item = blocks.item_of(message)
    if item is None or item.role not in ("user", "assistant") or item.source != blocks.HISTORY:
        return
    words = blocks.words_of(blocks.blocks_of(item.message.content) or ())
    if not words:
        return
    user = item.role == "user"
    name = uuid5(NAMESPACE_OID, f"{session}/{number}")
    entry: Record = {
        "content": [{"text": words, "type": "text"}],
        "createdAt": now_ms,
        "generationStatus": "completed",
        "id": f"{item.role}-{name}",
        "inputEntryId": None,
        "relatedEntryId": None,
        "role": item.role,
        "sessionId": session,
        "source": "turn_start" if user else "harness",
        "turnId": f"turn-{name.hex}",
        "type": "message",
        "updatedAt": now_ms,
    }
    yield _encoded(entry if user else entry | {"outcome": {"type": "committed"}})


# --- the files -------------------------------------------------------------------------------------


def _write(
    target: Path,
    source: Store,
    records: dict[str, Record],
    fill: Callable[[_Chunks, _Chunks], None],
) -> None:
    where = {"session_id": target.name, "generation": _FIRST, "snapshot_sequence": 0}
    now = datetime.fromtimestamp(clock.now_s(), UTC)
    begun = {
        "recovery_journal_segment": {"first_sequence": 1, "path": _JOURNAL},
        "created_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "execution_state": "quiescent",
    }
    manifest = records["manifest"] | where | begun
    with whole_tree(target) as part:
        messages, shown = _Chunks(part), _Chunks(part)
        fill(messages, shown)
        runtime = _copied(part, source, source.manifest.runtime_state.chunks)
        chunks = {"checkpoint": messages.close(), "projection_state": shown.close(), "runtime_state": runtime}
        for name, digests in chunks.items():
            body = _encoded(records[name])
            manifest[name] = manifest[name] | {"sha256": _digest(body), "chunks": digests}
            _put(part / "generations" / _FIRST / manifest[name]["path"], body)
        body = _encoded(manifest)
        _put(part / "generations" / _FIRST / "manifest.json", body)
        _put(part / CURRENT, _encoded(records["current"] | where | {"manifest_sha256": _digest(body)}))
        _put(part / _JOURNAL, b"")


class _Chunks:
    """Writes items into chunks, each named by its content."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self._digests: list[str] = []
        self._items: list[bytes] = []
        self._size = 0

    @property
    def empty(self) -> bool:
        return not self._items and not self._digests

    def add(self, item: bytes) -> None:
        self._items.append(item)
        self._size += len(item) + 1
        if self._size >= _SEALED:
            self.close()

    def add_all(self, items: Iterable[bytes]) -> None:
        for item in items:
            self.add(item)

    def close(self) -> list[str]:
        if self._items:
            self._digests.append(_put_chunk(self._part, b"[" + b",".join(self._items) + b"]"))
        self._items, self._size = [], 0
        return self._digests


def _copied(part: Path, source: Store, digests: Iterable[str] | None) -> list[str] | None:
    if digests is None:
        return None
    bodies = (content(source.chunk(digest)).removesuffix(b"\n") for digest in digests)
    return [_put_chunk(part, body) for body in bodies]


def _put_chunk(part: Path, body: bytes) -> str:
    msgspec.json.decode(body)  # with invalid JSON, no version could open the store
    digest = _digest(body)
    _put(part / "chunks" / f"{digest}.json", body)
    return digest


def _put(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(body + b"\n" if body else b"")


def _encoded(record: Record) -> bytes:
    return msgspec.json.encode(record, order="sorted")


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()
