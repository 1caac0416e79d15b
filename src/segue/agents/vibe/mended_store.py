"""A 3.x store that is written anew: its messages one by one, and the records that go with them.

What a terminal shows is made anew from the messages: a store remembers it apart from them, with all output.
The turn that was under way is taken along as far as it came, so that nothing is left for a resume to finish.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.vibe import blocks, items, newborn, unfinished, unified
from segue.agents.vibe.mended_item import ItemPiece, of_entries, shown
from segue.agents.vibe.mending import Piece
from segue.agents.vibe.newborn import Cut, Record
from segue.agents.vibe.store import ERRORS, Manifest, Store, content, decoded, opened
from segue.agents.vibe.told import Damaged
from segue.agents.vibe.unified_cut import FIRST, FORMAT, JOURNAL, KNOWN, SEALED
from segue.agents.vibe.walking import JOURNAL as UNFINISHED
from segue.agents.vibe.walking import MESSAGES, PIECE
from segue.core.decoder import decode
from segue.core.errors import Broken


def newest(folder: Path) -> Store | None:
    """The newest generation that can be read."""
    try:
        return opened(folder)
    except ERRORS:
        pass
    for manifest in sorted(folder.glob("generations/*/manifest.json"), reverse=True):
        try:
            return Store(str(folder), str(manifest.parent), decoded(str(manifest), Manifest), 0)
        except ERRORS:
            continue
    return None


def pieces(store: Store) -> Iterator[Piece | None]:
    turn = 0
    for n, path in enumerate(store.messages()):
        try:
            raws = items.raws(content(path))
        except ERRORS:
            yield None
            continue
        for index, raw in enumerate(raws):
            piece = ItemPiece.of(bytes(raw), MESSAGES + n * PIECE + index)
            turn = piece.turn if piece is not None else turn
            yield piece
    names: dict[str, str] = {}
    for place, entries in unfinished.records(store.journal, UNFINISHED):
        names |= {entry.call: entry.tool for entry in entries if entry.kind == "call"}
        yield ItemPiece.of(of_entries(entries, names, turn + 1), place)


def line(item: bytes) -> bytes | None:
    """The message as 2.x writes it; None where that form cannot hold it."""
    try:
        return blocks.line(decode(item, unified.Stored).message)
    except (Damaged, *ERRORS):
        return None


def write(source: Store, target: Path, messages: Callable[[], Iterable[bytes]]) -> bool:
    """The new store, whole or not at all; False when its records are not such that it can be written so."""
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        records = _records(source, target.name)
        part.mkdir(mode=0o700)
        _fill(part, source, records, messages())
        part.rename(target)
    except (LookupError, TypeError, *ERRORS):
        return False
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def _records(source: Store, session: str) -> dict[str, Record]:
    """All that is not the messages, as Vibe would write it for a session that has just begun."""
    current = _record(f"{source.folder}/CURRENT")
    if current["store_format"] != FORMAT or current["store_format_minor"] > KNOWN:
        raise ValueError("a format nobody knows yet")
    runtime = _record(source.part("runtime_state"))
    cut = Cut(session, 0, 0, runtime["session_metadata"].get("cwd"), None)
    return {
        "current": current,
        "manifest": _record(f"{source.generation}/manifest.json"),
        "checkpoint": newborn.checkpoint(_record(source.part("checkpoint"))) | {"context": {"messages": []}},
        "projection_state": newborn.projection(_record(source.part("projection_state")), cut),
        "runtime_state": newborn.runtime(runtime, cut),
    }


def _fill(part: Path, source: Store, records: dict[str, Record], messages: Iterable[bytes]) -> None:
    session = records["runtime_state"]["session_id"]
    where = {"session_id": session, "generation": FIRST, "snapshot_sequence": 0}
    told, seen, now = _Chunks(part), _Chunks(part), datetime.now(UTC)
    for n, message in enumerate(messages):
        told.add(message)
        for entry in shown(message, session, n, round(now.timestamp() * 1000)):
            seen.add(entry)
    kept = [content(source.chunk(digest)) for digest in source.manifest.runtime_state.chunks or ()]
    if not told.close():
        raise Broken("nothing of it can be saved")
    listed = {
        "checkpoint": told.close(),
        "projection_state": seen.close(),
        "runtime_state": _kept(part, kept),
    }
    manifest = (
        records["manifest"]
        | where
        | {
            "recovery_journal_segment": {"first_sequence": 1, "path": JOURNAL},
            "created_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "execution_state": "quiescent",
        }
    )
    for name, chunks in listed.items():
        body = _encoded(records[name])
        manifest[name] = manifest[name] | {"sha256": _digest(body), "chunks": chunks}
        _put(part / "generations" / FIRST / manifest[name]["path"], body)
    body = _encoded(manifest)
    _put(part / "generations" / FIRST / "manifest.json", body)
    _put(part / "CURRENT", _encoded(records["current"] | where | {"manifest_sha256": _digest(body)}))
    _put(part / JOURNAL, b"")


class _Chunks:
    """Items on their way into chunks, each named by what it holds."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self._digests: list[str] = []
        self._items: list[bytes] = []
        self._size = 0

    def add(self, item: bytes) -> None:
        self._items.append(item)
        self._size += len(item) + 1
        if self._size >= SEALED:
            self.close()

    def close(self) -> list[str]:
        if self._items:
            self._digests += _kept(self._part, [b"[" + b",".join(self._items) + b"]"])
        self._items, self._size = [], 0
        return self._digests


def _kept(part: Path, chunks: Iterable[bytes]) -> list[str]:
    digests = []
    for chunk in chunks:
        body = chunk.removesuffix(b"\n")
        msgspec.json.decode(body)
        digests.append(_digest(body))
        _put(part / "chunks" / f"{digests[-1]}.json", body)
    return digests


def _record(path: str) -> Record:
    return decoded(path, dict[str, Any])


def _put(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(body + b"\n" if body else b"")
        file.flush()
        os.fsync(file.fileno())


def _encoded(record: Record) -> bytes:
    return msgspec.json.encode(record, order="sorted")


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()
