"""One connection to a database, whichever it is: named queries, rows as tuples, whole transactions.

    _SQL = Queries("turns")
    db.one(_SQL.by_id, id=turn_id)

A connection serves one thread at a time; others wait. Errors of the driver become ``Broken``: one line that
says which store, what is wrong and what to do. Texts are stored as UTF-8 without NUL, everything nested as
JSON.

The queries are in ``sql/``, one file per subject, read when the first of them is needed. The files are
written for aiosql (``-- name: by_id(id)^``, parameters as ``:name``), and a test reads them with it. At run
time they are only split: importing aiosql takes longer than the rest of a turn's start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from segue.core.errors import Broken, StoreAway
from segue.core.json_values import decode

if TYPE_CHECKING:
    from segue.store.watch import Watch

T = TypeVar("T")


def storable(value: Any) -> Any:
    """A parameter that both databases accept; invalid characters become U+FFFD."""
    if not isinstance(value, str):
        return value
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    return value


def to_json(value: Any) -> str:
    """The value as JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(value))).decode()


def from_json(text: str | None, kind: type[T]) -> T | None:
    """What ``to_json`` wrote; None if it cannot be decoded (any more)."""
    if text is None:
        return None
    try:
        return decode(text, kind)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {storable(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return storable(value)


SQL = Path(__file__).parent / "sql"
_NAME = "-- name: "
_QUOTED_OR_PARAMETER = r"('(?:''|[^'])*')|(?<!:):([a-z_][a-z0-9_]*)"


class Queries:
    """The queries of one file, as attributes."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def __getattr__(self, name: str) -> str:
        for known, sql in read_queries(SQL / f"{self._subject}.sql").items():
            setattr(self, known, sql)
        if name not in self.__dict__:
            raise AttributeError(f"sql/{self._subject}.sql has no query {name}")
        return str(self.__dict__[name])


@cache
def read_queries(path: Path) -> dict[str, str]:
    """The SQL of a file, by name, without comments. Several modules share a file: it is read once."""
    _, *parts = path.read_text("utf-8").split(_NAME)
    return {part.partition("(")[0]: _without_comments(part.partition("\n")[2]) for part in parts}


@cache
def pyformat(sql: str) -> str:
    """``:name`` as ``%(name)s``, the syntax of psycopg."""
    return re.sub(_QUOTED_OR_PARAMETER, lambda found: found[1] or f"%({found[2]})s", sql)


@cache
def spread(sql: str, count: int) -> str:
    """``IN (:ids)`` expanded for ``count`` values: ``:ids0, :ids1, …``."""
    return sql.replace(":ids", ", ".join(f":ids{n}" for n in range(count)))


def statements(script: str) -> list[str]:
    """The statements of a script; each ends with ``;`` at the end of a line."""
    return [part for part in _without_comments(script).split(";\n") if part.strip()]


def _without_comments(sql: str) -> str:
    lines = [line for line in sql.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")


WAIT_S = 10
"""How long a write waits for another one."""
CHUNK = 500

Row = tuple[Any, ...]
Statement = tuple[str, dict[str, Any]]
"""A statement with its values, to be sent together with others."""


class Database:
    """What the two databases have in common; each adds its driver."""

    name: ClassVar[str]
    shared: ClassVar[bool]
    """Whether several hosts can use it."""
    url: str | None = None
    """Where it is, if it is not a file; with the password."""
    BEGIN_WRITING: ClassVar[str]
    BEGIN_READING: ClassVar[str]

    def __init__(self, where: str) -> None:
        self.where = where
        """The name of the store in messages; never with a password."""
        self._lock = RLock()
        self._depth = 0
        self.listeners: list[Callable[[], None]] = []
        """Called after each commit on this connection, in the thread that wrote."""

    def all(self, sql: str, **values: Any) -> list[Row]:
        with self._lock:
            rows: list[Row] = self._execute(sql, _bound(values)).fetchall()
            return rows

    def one(self, sql: str, **values: Any) -> Row | None:
        with self._lock:
            rows: list[Row] = self._execute(sql, _bound(values)).fetchall()
            return rows[0] if rows else None

    def run(self, sql: str, **values: Any) -> int:
        """Run a statement. Returns how many rows it changed."""
        with self._lock:
            count: int = self._execute(sql, _bound(values)).rowcount
            if not self._depth:
                self._tell()
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

    def together(self, *statements: Statement) -> list[list[Row]]:
        """The statements as one transaction, sent as a whole: one round trip. Returns the rows of each.

        None can depend on what an earlier one returned, so each says in SQL when it is to do nothing. Outside
        a transaction they are sent again if the connection is lost meanwhile: done twice, they must come to
        the same. Within one, they are a part of it.
        """
        with self._lock:
            found = self._execute_together([(sql, _bound(values)) for sql, values in statements])
            if not self._depth:
                self._tell()
            return found

    def found_by(self, *statements: Statement) -> list[list[Row]]:
        """The rows that each of these queries finds. Sent as a whole, but not of the same snapshot."""
        with self._lock:
            return self._execute_reads([(sql, _bound(values)) for sql, values in statements])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; within another one, a part of it."""
        with self._lock:
            with self._transaction(self.BEGIN_WRITING):
                yield
            if not self._depth:
                self._tell()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several reads of the same snapshot."""
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

    def watch(self, changed: Callable[[], None]) -> Watch:
        """Calls ``changed`` when anything was written, by whomever; it still has to be started."""
        raise NotImplementedError

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    def close(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        """Called instead of ``close`` when the process ends."""
        self.close()

    def is_new(self) -> bool:
        """Whether it has no schema of ours yet. Raises if the database belongs to another program."""
        raise NotImplementedError

    def lock_to_begin(self) -> None:
        """Within a writing transaction, as its first statement: keep every other run from beginning. Here the
        transaction itself does that."""

    def lock_for_migration(self) -> None:
        """Within a writing transaction: keep every other migration out."""

    def words(self, ddl: str) -> str:
        """A migration in this database's own SQL dialect."""
        return ddl

    def _execute(self, sql: str, values: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _execute_many(self, sql: str, rows: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def _execute_together(self, statements: list[Statement]) -> list[list[Row]]:
        with self._transaction(self.BEGIN_WRITING):
            return self._execute_reads(statements)

    def _execute_reads(self, statements: list[Statement]) -> list[list[Row]]:
        return [self._execute(sql, values).fetchall() for sql, values in statements]

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


class Section:
    """One subject of the store; ``Store`` is all of them."""

    def __init__(self, db: Database) -> None:
        self._db = db
