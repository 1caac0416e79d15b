"""Our own copies of native sessions: what each consists of; on PostgreSQL also the pieces themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from segue.core.model import Host, Pin
from segue.store.database import Database, Queries, Row
from segue.store.sessions import Sessions

_SQL = Queries("kept")
_EVER_MS = 1 << 62


class KeptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One copy. ``home`` is where the session was, on ``host``; the manifest's paths are relative to it."""

    agent: str
    account: str
    native_id: str
    conversation: str
    host: str
    home: str
    cwd: str
    size: int
    packed: int
    garbage: int = 0
    version: int = 1
    kept_ms: int
    used_ms: int
    manifest: str
    host_id: str | None = None


class Totals(msgspec.Struct, frozen=True):
    """The stored size of all copies in bytes, and when the least recently used one was used."""

    packed: int
    garbage: int
    oldest_ms: int | None


class ChunkTable:
    """The pieces of copies in the database, for every host that shares it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def has(self, name: str, packed: int) -> bool:
        return self._db.run(_SQL.use_chunk, name=name, packed=packed) == 1

    def lost(self, known: Mapping[str, int]) -> set[str]:
        there: dict[str, int] = dict(self._db.among(_SQL.chunks_there, list(known)))
        return {name for name, packed in known.items() if there.get(name, -1) < packed}

    def put(self, name: str, packed: bytes) -> None:
        self._db.run(_SQL.put_chunk, name=name, data=packed)

    def get(self, name: str) -> bytes | None:
        row = self._db.one(_SQL.chunk, name=name)
        return None if row is None else bytes(row[0])

    def delete(self, names: Iterable[str], unused_s: float) -> None:
        """Delete unused pieces, in order, so that two hosts do not block each other."""
        unused = round(unused_s * 1000)
        self._db.many(_SQL.delete_chunk, [{"name": name, "unused_ms": unused} for name in sorted(names)])

    def sizes(self) -> dict[str, int]:
        return dict(self._db.all(_SQL.chunk_sizes))


class Copies(Sessions):
    """Our own copies of native sessions, identified by agent, account and native id."""

    def session_copy(self, agent: str, account: str, native_id: str) -> KeptRow | None:
        row = self._db.one(_SQL.find, agent=agent, account=account, native_id=native_id)
        return None if row is None else _kept_of(row)

    def session_copies(self) -> list[KeptRow]:
        """All copies, the last used first."""
        return [_kept_of(row) for row in self._db.all(_SQL.every)]

    def save_copy(self, row: KeptRow, seen: KeptRow | None) -> bool:
        """Replace the copy ``seen``. False: another process changed or dropped it in the meantime."""
        fields = msgspec.structs.asdict(row)
        if seen is None:
            return self._db.run(_SQL.add, **fields) == 1
        return self._db.run(_SQL.change, **fields | {"version": seen.version + 1}, seen=seen.version) == 1

    def copy_totals(self) -> Totals:
        row = self._db.one(_SQL.totals)
        assert row is not None
        return Totals(int(row[0]), int(row[1]), row[2])

    def drop_oldest_copies(self, used_before_ms: int, too_much: int, recent_ms: int) -> int:
        """Drop the copies that no conversation would continue and that were last used before then, and more
        until ``too_much`` bytes are freed: the oldest first, needed or recent ones last. How many."""
        dropped, saved = 0, 0
        before_ms = _EVER_MS if too_much > 0 else used_before_ms
        for row in self._db.all(_SQL.oldest_first, before_ms=before_ms, recent_ms=recent_ms):
            agent, account, native_id, version, packed, used_ms, needed = row
            if saved >= too_much and (needed or used_ms >= used_before_ms):
                break
            if self._db.run(_SQL.drop, agent=agent, account=account, native_id=native_id, seen=version):
                dropped, saved = dropped + 1, saved + packed
        return dropped

    def copy_manifests(self) -> list[str]:
        return [text for (text,) in self._db.all(_SQL.manifests)]

    def clear_copy_garbage(self) -> None:
        """Record that the garbage was collected."""
        self._db.run(_SQL.no_garbage)

    def move_session(self, conversation: str, pin: Pin, host: Host, home: str) -> None:
        """Record that the pinned session is now on this host."""
        with self._db.writing():
            row, here = self.session_by_id(pin.session), {"host": host.name, "host_id": host.id}
            if row is not None:
                self._save_session(msgspec.structs.replace(row, **here, home=home))
            self._save_pin(conversation, msgspec.structs.replace(pin, **here, home=home))

    def shared_chunks(self) -> ChunkTable | None:
        """The pieces of copies, if hosts share the database. None: each host keeps them in files."""
        return ChunkTable(self._db) if self._db.shared else None

    def _forget_copies(self, conversation: str) -> None:
        """Before a conversation is removed: drop its copies, except those that another one would continue."""
        with self._db.writing():
            self._db.run(_SQL.forget, conversation=conversation)
            self._db.run(_SQL.hand_on, conversation=conversation)


def _kept_of(row: Row) -> KeptRow:
    return KeptRow(**dict(zip(KeptRow.__struct_fields__, row, strict=True)))
