"""A 3.x store cut short: a new store, in the state in which Vibe itself begins one, with fewer messages.

Taken in from a 2.x directory a session would lose its plugins, and with them a part of its system prompt: the
prompt cache would serve nothing of it. So a store is written as a store. Every file is named in another one
with its sha256; ``CURRENT`` and the manifest must be in canonical form (sorted, compact), the rest need not.
What is not understood here is carried along as it is; a format newer than the known one is left alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from segue.agents.vibe import newborn
from segue.agents.vibe.newborn import Cut, Record
from segue.core.decoder import decode

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


def write(source: Path, cut: Cut) -> bool:
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
    for name, record, chunks in _records(source, cut):
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


def _records(source: _Source, cut: Cut) -> Iterator[tuple[str, Record, list[bytes]]]:
    """The three records of a generation, each with the chunks it is completed by."""
    shown = newborn.entries(source.items("projection_state"), cut, source.current["session_id"])
    kept = source.items("checkpoint")[: cut.kept]
    yield "checkpoint", newborn.checkpoint(source.part("checkpoint")), list(_chunks(kept))
    yield "projection_state", newborn.projection(source.part("projection_state"), cut), list(_chunks(shown))
    yield "runtime_state", newborn.runtime(source.part("runtime_state"), cut), source.whole("runtime_state")


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
