"""One connection to a database, whichever it is: named parameters, rows as tuples, whole transactions.

A connection serves one thread at a time; whoever comes second waits. Errors of the driver become
``Broken``: one line that says which store, what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, ClassVar

from segue.core.errors import Broken, StoreAway
from segue.store.packing import storable
from segue.store.queries import spread

WAIT_S = 10
"""How long a write waits for another one."""
CHUNK = 500

Row = tuple[Any, ...]


class Database:
    """What the two databases share; each adds how to talk to its driver."""

    name: ClassVar[str]
    BEGIN_WRITING: ClassVar[str]
    BEGIN_READING: ClassVar[str]

    def __init__(self, where: str) -> None:
        self.where = where
        """How the store is called in sentences; never with a password."""
        self._lock = RLock()
        self._depth = 0

    def all(self, sql: str, **values: Any) -> list[Row]:
        with self._lock:
            rows: list[Row] = self._execute(sql, _bound(values)).fetchall()
            return rows

    def one(self, sql: str, **values: Any) -> Row | None:
        with self._lock:
            rows: list[Row] = self._execute(sql, _bound(values)).fetchall()
            return rows[0] if rows else None

    def run(self, sql: str, **values: Any) -> int:
        """How many rows it changed."""
        with self._lock:
            count: int = self._execute(sql, _bound(values)).rowcount
            return count

    def many(self, sql: str, rows: Iterable[dict[str, Any]]) -> None:
        """The same statement for each row, in one transaction."""
        bound = [_bound(row) for row in rows]
        if bound:
            with self.writing():
                self._execute_many(sql, bound)

    def among(self, sql: str, ids: Sequence[str]) -> list[Row]:
        """All rows for ``IN (:ids)``, however many there are."""
        found: list[Row] = []
        for start in range(0, len(ids), CHUNK):
            part = list(ids[start : start + CHUNK])
            room = (
                1 << (len(part) - 1).bit_length()
            )  # few different statements, so that they are kept prepared
            part += part[-1:] * (room - len(part))
            found += self.all(spread(sql, room), **{f"ids{n}": value for n, value in enumerate(part)})
        return found

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; within another one, a part of that."""
        with self._transaction(self.BEGIN_WRITING):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several reads of the same moment."""
        with self._transaction(self.BEGIN_READING):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock:
            if self._depth:
                yield
                return
            self._execute(begin, {})
            self._depth += 1
            try:
                yield
                self._execute("COMMIT", {})
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._depth -= 1

    def close(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        """The process ends now."""
        self.close()

    def is_new(self) -> bool:
        """Whether there is no schema of ours yet. Raises where the database is somebody else's."""
        raise NotImplementedError

    def lock_for_migration(self) -> None:
        """Within a writing transaction: keep every other migration out."""

    def words(self, ddl: str) -> str:
        """A migration in this database's own words."""
        return ddl

    def _execute(self, sql: str, values: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _execute_many(self, sql: str, rows: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def _roll_back(self) -> None:
        raise NotImplementedError

    def _broken(self, what: str) -> Broken:
        return Broken(self._sentence(what))

    def _away(self, what: str) -> StoreAway:
        return StoreAway(self._sentence(what))

    def _sentence(self, what: str) -> str:
        return f"the store {self.where} {' '.join(what.split())}"


def _bound(values: dict[str, Any]) -> dict[str, Any]:
    return {name: storable(value) for name, value in values.items()}
