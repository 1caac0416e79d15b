"""Brings a store to the newest schema: numbered migrations, each applied once, in order, under a lock.

    0001_start.sql           for both databases, in SQLite's dialect
    0001_start.sqlite.sql    for SQLite only, run after it

A migration only adds, so that no stored data is lost, and never changes once it has been applied anywhere:
its checksum is in the store.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from segue.core.errors import Broken
from segue.store.database import Database, Queries, statements
from segue.system import clock

MIGRATIONS = Path(__file__).parent / "migrations"
_SQL = Queries("migrations")
Alone = Callable[[], AbstractContextManager[None]]


class Migration(NamedTuple):
    version: int
    name: str
    path: Path

    def text(self, database: str) -> str:
        own = self.path.with_suffix(f".{database}.sql")
        return self.path.read_text("utf-8") + (own.read_text("utf-8") if own.exists() else "")


def known(directory: Path = MIGRATIONS) -> list[Migration]:
    """The migrations that this program knows, oldest first."""
    names = sorted(name for name in os.listdir(directory) if name.count(".") == 1 and name.endswith(".sql"))
    return [Migration(int(name[:4]), name[5:-4], directory / name) for name in names]


def migrate(db: Database, directory: Path = MIGRATIONS, alone: Alone = nullcontext) -> None:
    """Bring the schema up to date. If it already is, that takes one query.

    ``alone``: entered before a store of an older Segue is changed."""
    migrations = known(directory)
    newest = migrations[-1]
    if not db.is_new() and db.one(_SQL.newest) == (newest.version, checksum(newest.text(db.name))):
        return
    new = db.is_new()
    if not new:
        _compare(db, dict(db.all(_SQL.applied)), migrations)
    with nullcontext() if new else alone(), db.writing():
        db.lock_for_migration()
        applied: dict[int, str] = {} if db.is_new() else dict(db.all(_SQL.applied))
        _compare(db, applied, migrations)
        for migration in migrations:
            if migration.version not in applied:
                _apply(db, migration)


def checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _compare(db: Database, applied: dict[int, str], migrations: list[Migration]) -> None:
    newest = migrations[-1].version
    if applied and max(applied) > newest:
        problem = f"was made by a newer Segue (schema {max(applied)}, this one knows {newest})"
        raise Broken(
            f"the store {db.where} {problem}; install a newer one, or set SEGUE_HOME to another directory"
        )
    for migration in migrations:
        found = applied.get(migration.version)
        if found is not None and found != checksum(migration.text(db.name)):
            problem = f"has a different schema {migration.version} than this Segue (checksum {found})"
            raise Broken(f"the store {db.where} {problem}; install the Segue that made it, or a released one")


def _apply(db: Database, migration: Migration) -> None:
    text = migration.text(db.name)
    for statement in statements(db.words(text)):
        db.run(statement)
    db.run(
        _SQL.note,
        version=migration.version,
        name=migration.name,
        checksum=checksum(text),
        applied_ms=clock.now_ms(),
    )
