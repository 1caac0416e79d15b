"""PostgreSQL, by URL: tables in a separate schema, ``segue``.

The only place that imports psycopg.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from segue.core.errors import Broken, Misuse
from segue.store.database import WAIT_S, Database, Row, Statement, pyformat

try:
    import psycopg
except ImportError:
    raise Misuse('a PostgreSQL store needs psycopg: pip install "segue[postgres]"') from None

if TYPE_CHECKING:
    from segue.store.watch import Watch

_MIGRATING = 7_365_677_565  # an arbitrary number: the key of the lock
_BEGINNING = _MIGRATING + 1
_WORDS = (
    (re.compile(r"\) STRICT(, WITHOUT ROWID)?(?=;$)", re.MULTILINE), ")"),
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bREAL\b"), "DOUBLE PRECISION"),
    (re.compile(r"\bTEXT\b"), 'TEXT COLLATE "C"'),
)


_REACHABLE: dict[str, Any] = {
    "connect_timeout": WAIT_S,
    "keepalives_idle": WAIT_S,
    "keepalives_interval": WAIT_S // 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 3 * WAIT_S * 1000,
}
"""So that we notice if the server disappears without closing the connection."""
_SETTINGS = f"""
SET search_path TO segue;
SET lock_timeout TO '{WAIT_S}s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
"""The last one: a server that may forget what it has confirmed would let a finished turn run again."""
ANSWER_S = 3.0 * WAIT_S
"""How long a statement may take; one that waits for a lock gives up before that."""


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Closes itself if the server does not answer in time; nothing could be cancelled then."""

    patient = False
    """Set for migrations, which have no time limit."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        return super().wait(gen if self.patient else self._in_time(gen), *args, **options)

    def _in_time(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = time.monotonic() + ANSWER_S
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > until:
                    self.close()
                    raise psycopg.OperationalError(f"the server has not answered for {ANSWER_S:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value


class Postgres(Database):
    name = "postgres"
    shared = True
    BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED"
    """Whatever the server's default is: what is read after waiting for a lock must be current."""
    BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

    def __init__(self, url: str) -> None:
        self.url, self._url = url, url
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise Misuse(f"cannot read the URL of the store: {error}") from None
        self._secrets = [unquote(parts.password or ""), *parse_qs(parts.query).get("password", [])]
        super().__init__(f"{parts.hostname or 'PostgreSQL'}{parts.path}")
        self._connection = self.connect()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def is_new(self) -> bool:
        found = "SELECT 1 FROM pg_tables WHERE schemaname = 'segue' AND tablename = 'segue_migrations'"
        return self.one(found) is None

    def lock_to_begin(self) -> None:
        self.one("SELECT pg_advisory_xact_lock(:key)", key=_BEGINNING)

    def lock_for_migration(self) -> None:
        self._connection.patient = True  # for this connection: a process migrates only once
        self.one("SELECT pg_advisory_xact_lock(:key)", key=_MIGRATING)
        if self.one("SELECT 1 FROM pg_namespace WHERE nspname = 'segue'") is None:
            self.run("CREATE SCHEMA segue")

    def run(self, sql: str, **values: Any) -> int:
        """In a transaction, so that it is never repeated if the connection is lost while it runs."""
        with self.writing():
            return super().run(sql, **values)

    def words(self, ddl: str) -> str:
        for pattern, word in _WORDS:
            ddl = pattern.sub(word, ddl)
        return ddl

    def watch(self, changed: Callable[[], None]) -> Watch:
        from segue.store.postgres_watch import PostgresWatch

        return PostgresWatch(self, changed)

    def connect(self) -> _Connection:
        """A new connection."""
        more = {name: value for name, value in _REACHABLE.items() if name not in self._url}
        try:
            connection = _Connection.connect(self._url, autocommit=True, application_name="segue", **more)
            connection.execute(_SETTINGS.encode())
        except psycopg.Error as error:
            raise self._said(error, "cannot be reached") from error
        return connection

    def _execute(self, sql: str, values: dict[str, Any]) -> Any:
        query = pyformat(sql).encode()
        return self._done(lambda: self._connection.execute(query, values or None))

    def _execute_many(self, sql: str, rows: list[dict[str, Any]]) -> None:
        query = pyformat(sql).encode()
        self._done(lambda: self._connection.cursor().executemany(query, rows))

    def _execute_together(self, statements: list[Statement]) -> list[list[Row]]:
        """What is sent before the answers are waited for is one transaction to the server."""
        queries = [(pyformat(sql).encode(), values or None) for sql, values in statements]

        def send() -> list[list[Row]]:
            with self._connection.pipeline() if len(queries) > 1 else nullcontext():
                answers = [self._connection.execute(query, values) for query, values in queries]
            return [each.fetchall() if each.rownumber is not None else [] for each in answers]

        found: list[list[Row]] = self._done(send)
        return found

    _execute_reads = _execute_together

    def _done(self, statement: Callable[[], Any]) -> Any:
        """Run the statement, if necessary a second time: on a new connection, outside a transaction."""
        try:
            return statement()
        except psycopg.Error as error:
            if self._depth or not self._connection.closed:
                raise self._said(error) from error
        self._connection = self.connect()
        try:
            return statement()
        except psycopg.Error as error:
            raise self._said(error) from error

    def _roll_back(self) -> None:
        with suppress(psycopg.Error):  # a lost connection is rolled back by the server
            if not self._connection.closed:
                self._connection.rollback()

    def _said(self, error: psycopg.Error, what: str = "cannot be used") -> Broken:
        said = str(error)
        for secret in filter(None, self._secrets):
            said = said.replace(secret, "…")
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return self._away(f"is busy: another program has been writing for {WAIT_S} s; try again")
        away = isinstance(error, psycopg.OperationalError)
        return self._away(f"{what}: {said}") if away else self._broken(f"{what}: {said}")
