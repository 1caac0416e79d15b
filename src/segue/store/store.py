"""The store as a whole, and how it is opened.

    with open_store(config.store.url, home.store) as store: ...

Synchronous, one connection, safe to call from any thread (one after the other).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from segue.store.conversations import Conversations
from segue.store.database import Database
from segue.store.events import Events
from segue.store.history import History
from segue.store.messages import Messages
from segue.store.migrate import migrate
from segue.store.records import Conversation, LogRow
from segue.store.sessions import Sessions
from segue.store.settling import Settling
from segue.store.turns import Turns

if TYPE_CHECKING:
    from segue.core.model import Pin
    from segue.store.adopting import Adoption, Successor


class Store(Conversations, Messages, Turns, Sessions, Settling, History, Events):
    """Everything that is remembered, by subject; each method is one transaction."""

    def fork(
        self,
        conversation: Conversation,
        new_key: str,
        upto: str | None,
        now_ms: int,
        ids: Callable[[], str],
    ) -> Conversation:
        """A new conversation with copies of the messages up to and with ``upto`` (None: all that stand).

        Its pins point to the same native sessions, as far as these hold what was copied. Raises ``Misuse``
        where the key is taken.
        """
        from segue.store import forking

        return forking.fork(self.db, conversation, new_key, upto, now_ms, ids)

    def adopt(self, conversation_id: str, adoption: Adoption, now_ms: int) -> None:
        """Take a native session into a conversation: its messages stand behind those that are there."""
        from segue.store import adopting

        adopting.adopt(self.db, conversation_id, adoption, now_ms)

    def repin(self, conversation_id: str, pin: Pin, successor: Successor, now_ms: int) -> None:
        """The pin points to another session that holds the same; the one before is retired."""
        from segue.store import adopting

        adopting.repin(self.db, conversation_id, pin, successor, now_ms)

    def log(self, conversation_id: str, *, withdrawn: bool = False) -> list[LogRow]:
        """Each message that stands, with the turn that gave it, or the newest that left it unanswered.

        ``withdrawn``: at their time also those that have no place, numbered 0.
        """
        from segue.store import log

        with self.db.reading():
            turns = self.turns(conversation_id)
            placed = log.log(self.db, conversation_id, turns)
            return (
                log.by_time(placed, log.withdrawn(self.db, conversation_id, turns)) if withdrawn else placed
            )

    def close(self) -> None:
        self.db.close()

    def leave(self) -> None:
        """Instead of closing it, where the process ends anyway: nothing is lost, and it costs nothing."""
        self.db.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(url: str | None, path: Path) -> Store:
    """The store at a PostgreSQL URL, else the SQLite file at ``path``; made, or brought up to date."""
    db = _connect(url, path)
    try:
        migrate(db)
    except BaseException:
        db.close()
        raise
    return Store(db)


def _connect(url: str | None, path: Path) -> Database:
    if url is None:
        from segue.store.sqlite import SQLite

        return SQLite(path)
    from segue.store.postgres import Postgres

    return Postgres(url)
