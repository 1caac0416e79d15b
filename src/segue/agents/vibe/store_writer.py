"""The records of a 3.x store that has just been born: what a cut leaves of those of an older one.

What is not understood here is carried along as it is.

A 3.x store cut short: a new store, in the state in which Vibe itself begins one, with fewer messages.

Taken in from a 2.x directory a session would lose its plugins, and with them a part of its system prompt: the
prompt cache would serve nothing of it. So a store is written as a store. Every file is named in another one
with its sha256; ``CURRENT`` and the manifest must be in canonical form (sorted, compact), the rest need not.
What is not understood here is carried along as it is; a format newer than the known one is left alone.

A 3.x store that is written anew: its messages one by one, and the records that go with them.

What a terminal shows is made anew from the messages: a store remembers it apart from them, with all output.
The turn that was under way is taken along as far as it came, so that nothing is left for a resume to finish.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.vibe import blocks, walk
from segue.agents.vibe import store as unified
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.repair_pieces import ItemPiece, Piece, as_shown, of_entries
from segue.agents.vibe.store import ERRORS, Manifest, Store, content, decoded, opened
from segue.agents.vibe.walk import JOURNAL as UNFINISHED
from segue.agents.vibe.walk import MESSAGES, PIECE
from segue.core.errors import Broken
from segue.core.json_values import decode

Record = dict[str, Any]


class Cut(msgspec.Struct, frozen=True):
    """What the new store is to be: how many messages it keeps, and how many prompts it leaves out."""

    session: str
    kept: int
    prompts_left_out: int
    cwd: str
    model: str | None


def checkpoint_record(old: Record) -> Record:
    """Nothing of the turn that ended last: what it answered, and how full the window was."""
    gone = ("last_finished_turn_id", "last_reported_context_tokens")
    return {key: value for key, value in old.items() if key not in gone} | {"turn": {"type": "idle"}}


def runtime_record(old: Record, cut: Cut) -> Record:
    """What the session is made under stays: plugins, settings, instructions. What it did is left out."""
    if old["subagents"] is not None and old["subagents"]["children"]:
        raise ValueError("it has sessions of its own under it")
    pins = {"root_session_id": cut.session, "parent_session_id": None, "cwd": cut.cwd}
    pins |= {"active_model": cut.model} if cut.model else {}
    lists = ("actions", "callbacks", "children", "command_receipts", "processes", "provider_operations")
    nothing: Record = {key: [] for key in (*lists, "submitted_process_notifications")}
    return (
        old
        | nothing
        | {
            "session_id": cut.session,
            "identity": _identity(cut.session),
            "session_metadata": old["session_metadata"] | pins,
            "import_provenance": None,
            "pending_transition": None,
            "subagents": None,
            "core_task_id": None,
            "core_last_input_id": 0,
            "snapshot_sequence": 0,
        }
    )


def _identity(session: str) -> Record:
    return {
        "depth": 0,
        "kind": "root",
        "parent_session_id": None,
        "root_session_id": session,
        "session_id": session,
    }


def projection_record(old: Record, cut: Cut) -> Record:
    """What a terminal shows of the session."""
    ids = {"id": cut.session, "rootSessionId": cut.session, "parentSessionId": None}
    session = old["snapshot"]["session"] | ids | {"contextUsage": None, "tokenUsage": None}
    snapshot = old["snapshot"] | {"session": session, "latestTurn": None}
    return old | {"session_id": cut.session, "snapshot": snapshot, "snapshot_sequence": 0, "watermark": 0}


def entry_records(shown: Sequence[bytes], cut: Cut, old_id: str) -> list[bytes]:
    """Counted from the end: after a compaction there are more of them than messages."""
    end, left = len(shown), cut.prompts_left_out
    while end and left:
        end -= 1
        entry = decode(shown[end], Record)
        left -= entry.get("type") == "message" and entry.get("role") == "user"
    return [piece.replace(old_id.encode(), cut.session.encode()) for piece in shown[:end]]


FORMAT, KNOWN = "mistral.vibe.unified-session-store/v1", 9
FIRST = "0" * 16
JOURNAL = f"journal/{1:016d}.jsonl"
SEALED = 64 * 1024
"""A chunk that has grown to this size is closed."""


class _Source(msgspec.Struct, frozen=True):
    """The newest generation of a store, undigested."""

    folder: Path
    current: Record
    manifest: Record

    def part(self, name: str) -> Record:
        path = self.folder / "generations" / self.current["generation"] / self.manifest[name]["path"]
        return _decoded(path)

    def items(self, name: str) -> list[bytes]:
        """The pieces of a record that lie in chunks."""
        return [
            bytes(item)
            for digest in self.manifest[name]["chunks"]
            for item in msgspec.json.decode(self._chunk(digest), type=list[msgspec.Raw])
        ]

    def whole(self, name: str) -> list[bytes]:
        """The chunks of a record as they are."""
        return [self._chunk(digest).removesuffix(b"\n") for digest in self.manifest[name]["chunks"] or ()]

    def _chunk(self, digest: str) -> bytes:
        return (self.folder / "chunks" / f"{digest}.json").read_bytes()


def write_cut(source: Path, cut: Cut) -> bool:
    """The new store, beside the old one, whole or not at all; False when it cannot be written so."""
    target = source.with_name(cut.session)
    part = source.with_name(f".{cut.session}.part")
    try:
        files = dict(_files(_opened(source), cut))
        if target.exists():
            return False
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        for name, body in files.items():
            _put(part / name, body)
        part.rename(target)
    except (OSError, LookupError, TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return False
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def _opened(folder: Path) -> _Source:
    current = _decoded(folder / "CURRENT")
    manifest = _decoded(folder / "generations" / current["generation"] / "manifest.json")
    if current["store_format"] != FORMAT or current["store_format_minor"] > KNOWN:
        raise ValueError("a format nobody knows yet")
    if manifest["execution_state"] != "quiescent":
        raise ValueError("a turn is under way in it")
    return _Source(folder, current, manifest)


def _files(source: _Source, cut: Cut) -> Iterator[tuple[str, bytes]]:
    where = {"session_id": cut.session, "generation": FIRST, "snapshot_sequence": 0}
    segment = {"first_sequence": 1, "path": JOURNAL}
    manifest = source.manifest | where | {"recovery_journal_segment": segment, "created_at": _now()}
    for name, record, chunks in _cut_records(source, cut):
        old, body = source.manifest[name], _encoded(record)
        pool = {_digest(chunk): chunk for chunk in chunks}
        listed = list(map(_digest, chunks)) if old["chunks"] is not None else None
        manifest[name] = old | {"sha256": _digest(body), "chunks": listed}
        yield f"generations/{FIRST}/{old['path']}", body
        yield from ((f"chunks/{digest}.json", chunk) for digest, chunk in pool.items())
    body = _encoded(manifest)
    yield f"generations/{FIRST}/manifest.json", body
    yield "CURRENT", _encoded(source.current | where | {"manifest_sha256": _digest(body)})
    yield JOURNAL, b""


def _cut_records(source: _Source, cut: Cut) -> Iterator[tuple[str, Record, list[bytes]]]:
    """The three records of a generation, each with the chunks it is completed by."""
    shown = entry_records(source.items("projection_state"), cut, source.current["session_id"])
    kept = source.items("checkpoint")[: cut.kept]
    yield "checkpoint", checkpoint_record(source.part("checkpoint")), list(_chunks(kept))
    yield "projection_state", projection_record(source.part("projection_state"), cut), list(_chunks(shown))
    yield "runtime_state", runtime_record(source.part("runtime_state"), cut), source.whole("runtime_state")


def _chunks(items: Iterable[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for item in items:
        pending.append(item)
        size += len(item) + 1
        if size >= SEALED:
            yield b"[" + b",".join(pending) + b"]"
            pending, size = [], 0
    if pending:
        yield b"[" + b",".join(pending) + b"]"


def _put(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(body + b"\n" if body else b"")
        file.flush()
        os.fsync(file.fileno())


def _decoded(path: Path) -> Record:
    return decode(path.read_bytes(), Record)


def _encoded(record: Record) -> bytes:
    return msgspec.json.encode(record, order="sorted")


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def newest_records(folder: Path) -> Store | None:
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


def store_pieces(store: Store) -> Iterator[Piece | None]:
    turn = 0
    for n, path in enumerate(store.messages()):
        try:
            raws = blocks.raws(content(path))
        except ERRORS:
            yield None
            continue
        for index, raw in enumerate(raws):
            piece = ItemPiece.of(bytes(raw), MESSAGES + n * PIECE + index)
            turn = piece.turn if piece is not None else turn
            yield piece
    names: dict[str, str] = {}
    for place, entries in walk.unfinished_records(store.journal, UNFINISHED):
        names |= {entry.call: entry.tool for entry in entries if entry.kind == "call"}
        yield ItemPiece.of(of_entries(entries, names, turn + 1), place)


def record_line(item: bytes) -> bytes | None:
    """The message as 2.x writes it; None where that form cannot hold it."""
    try:
        return blocks.as_line(decode(item, unified.StoreFile).message)
    except (Damaged, *ERRORS):
        return None


def write_repaired(source: Store, target: Path, messages: Callable[[], Iterable[bytes]]) -> bool:
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
        "checkpoint": checkpoint_record(_record(source.part("checkpoint"))) | {"context": {"messages": []}},
        "projection_state": projection_record(_record(source.part("projection_state")), cut),
        "runtime_state": runtime_record(runtime, cut),
    }


def _fill(part: Path, source: Store, records: dict[str, Record], messages: Iterable[bytes]) -> None:
    session = records["runtime_state"]["session_id"]
    where = {"session_id": session, "generation": FIRST, "snapshot_sequence": 0}
    told, seen, now = _Chunks(part), _Chunks(part), datetime.now(UTC)
    for n, message in enumerate(messages):
        told.add(message)
        for entry in as_shown(message, session, n, round(now.timestamp() * 1000)):
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
