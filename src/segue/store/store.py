"""The store as a whole, how it is opened, the events of turns, and the log of a conversation.

    with open_store(config.store.url, home.store) as store: ...

Synchronous, one connection, safe to call from any thread (one after the other). ``Store`` is made of
sections, one per subject. Each inherits from those that it uses: messages, sessions, copies, conversations,
turns. The connection is private to this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from segue.core.model import Voice
from segue.store.database import Database, Queries, Row, Section
from segue.store.feed import Feed
from segue.store.messages import Messages, read_facts
from segue.store.migrate import Alone, migrate
from segue.store.queue import Queue
from segue.store.records import Conversation, LogRow, TurnRow
from segue.store.renewer import Renewer

if TYPE_CHECKING:
    from segue.core.model import Pin
    from segue.store.budgets import Budgets
    from segue.store.carries import Carries
    from segue.store.chains import Chains
    from segue.store.flows import Flows
    from segue.store.forks import Adoption, Successor
    from segue.store.marks import Marks
    from segue.store.reading import Reading
    from segue.store.watch import Watch

_EVENTS = Queries("events")
FORGET_AT_ONCE = 2_000
"""How many events are deleted at a time, so that no caller waits long."""
_SQL = Queries("messages")
NO_PLACE = 0
"""The number of a message that never had a place in the conversation."""


class Events(Section):
    """The events of turns; and the capabilities that turned out not to work, by runtime."""

    def record(self, turn_id: str, rows: Sequence[tuple[int, int, str]]) -> None:
        """Each row: its number in the turn, the time, the event as JSON. An existing one is kept."""
        named = [{"turn": turn_id, "seq": seq, "ms": ms, "event": event} for seq, ms, event in rows]
        self._db.many(_EVENTS.record, named)

    def events(self, turn_id: str, after: int = 0) -> list[tuple[int, int, str]]:
        """The events with a number above ``after``, in order."""
        return [(seq, ms, event) for seq, ms, event in self._db.all(_EVENTS.after, turn=turn_id, seq=after)]

    def tool_events(self, answers: Sequence[str]) -> dict[str, list[str]]:
        """By answer: the tool calls and results of the turn that gave it, in order, as JSON."""
        found: dict[str, list[str]] = {}
        for answer, event in self._db.among(_EVENTS.of_tools, answers):
            found.setdefault(answer, []).append(event)
        return found

    def forget_events(self, before_ms: int) -> int:
        """Drop older events of settled turns, except those of tools, a limited number at a time. How many."""
        return self._db.run(_EVENTS.forget, before_ms=before_ms, count=FORGET_AT_ONCE)

    def switch_off(self, runtime: str, capability: str, reason: str, ms: int) -> None:
        """Record that this runtime does not have a capability that it claims."""
        self._db.run(_EVENTS.switch_off, runtime=runtime, capability=capability, reason=reason, ms=ms)

    def switched_off(self, runtime: str) -> dict[str, str]:
        """The capabilities that must not be used, each with the reason."""
        return dict(self._db.all(_EVENTS.switched_off, runtime=runtime))


class Store(Queue, Feed, Events):
    """Everything that is stored; each method is one transaction."""

    def __init__(self, source: Database | Store) -> None:
        """``source``: the connection, or another store to share its connection with."""
        super().__init__(source._db if isinstance(source, Store) else source)
        self.renewer = Renewer()

    @property
    def url(self) -> str | None:
        """The URL it was opened with; None: it is a file."""
        return self._db.url

    def fork(
        self,
        conversation: Conversation,
        new_key: str,
        upto: str | None,
        now_ms: int,
        ids: Callable[[], str],
    ) -> Conversation:
        """A new conversation with copies of the messages up to and including ``upto`` (None: all).

        Its pins point to the same native sessions, if these hold what was copied. Raises ``Misuse`` if the
        key is taken.
        """
        from segue.store.forks import Forks

        return Forks(self._db).fork(conversation, new_key, upto, now_ms, ids)

    def adopt(self, conversation_id: str, adoption: Adoption, now_ms: int) -> None:
        """Import a native session into a conversation: its messages come after the current ones."""
        from segue.store.forks import Forks

        Forks(self._db).adopt(conversation_id, adoption, now_ms)

    def repin(self, conversation_id: str, pin: Pin, successor: Successor, now_ms: int) -> None:
        """Point the pin to another session that holds the same; the previous one is retired."""
        from segue.store.forks import Forks

        Forks(self._db).repin(conversation_id, pin, successor, now_ms)

    def log(self, conversation_id: str, *, withdrawn: bool = False) -> list[LogRow]:
        """The current messages, each with the turn that gave it, or the newest that left it unanswered.

        ``withdrawn``: also those without a place, numbered 0, in the order of time.
        """

        with self._db.reading():
            turns = self.turns(conversation_id)
            rows = self._placed(conversation_id, turns)
            if withdrawn:
                rows = by_time(rows, self._unplaced_rows(conversation_id, turns))
            return with_attachments(self, rows)

    @property
    def carries(self) -> Carries:
        """Switches between accounts, and what was carried over."""
        from segue.store.carries import Carries

        return Carries(self._db)

    @property
    def budgets(self) -> Budgets:
        """What was spent, and what may be."""
        from segue.store.budgets import Budgets

        return Budgets(self._db)

    @property
    def flows(self) -> Flows:
        """Flows and their steps."""
        from segue.store.flows import Flows

        return Flows(self._db)

    @property
    def marks(self) -> Marks:
        """Whose words turns were given."""
        from segue.store.marks import Marks

        return Marks(self._db)

    @property
    def chains(self) -> Chains:
        """Turns that came out of each other."""
        from segue.store.chains import Chains

        return Chains(self._db)

    @property
    def reading(self) -> Reading:
        """Pages, search, versions and sums."""
        from segue.store.reading import Reading

        return Reading(self._db)

    def watch(self, changed: Callable[[], None]) -> Watch:
        """Calls ``changed`` whenever something may have changed, whichever process changed it. It still has
        to be started, and must be closed before the store."""
        return self._db.watch(changed)

    def close(self) -> None:
        self._db.close()

    def leave(self) -> None:
        """Used instead of ``close`` if the process ends anyway: nothing is lost, and it costs no time."""
        self._db.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _placed(self, conversation_id: str, turns: list[TurnRow]) -> list[LogRow]:
        """The messages with a place. ``turns``: all turns, the newest last."""
        rows = self._db.all(_SQL.whole, conversation=conversation_id)
        standing = {row[0] for row in rows}
        by_answer = {turn.answer: turn for turn in turns if turn.answer}
        answered = {turn.message for turn in turns if turn.answer in standing}
        unanswered = {turn.message: turn for turn in turns if turn.message not in answered}
        answers = {
            row[0]: self._whole(by_answer[row[0]], row[5] if row[2] == 1 else None)
            for row in rows
            if row[0] in by_answer
        }
        return [
            log_row(n, row, answers.get(row[0]) or unanswered.get(row[0])) for n, row in enumerate(rows, 1)
        ]

    def _unplaced_rows(self, conversation_id: str, turns: list[TurnRow]) -> list[LogRow]:
        """The messages without a place: their turn waits, or never began."""
        newest = {turn.message: turn for turn in turns}
        rows = self._db.all(_SQL.withdrawn, conversation=conversation_id)
        return [log_row(NO_PLACE, row, newest.get(row[0])) for row in rows]


def by_time(placed: Sequence[LogRow], unplaced: Sequence[LogRow]) -> list[LogRow]:
    """One list: a message without a place comes before the first one that was said after it."""
    merged, left = [], list(unplaced)
    for row in placed:
        while left and left[0].created_ms < row.created_ms:
            merged.append(left.pop(0))
        merged.append(row)
    return [*merged, *left]


def with_attachments(store: Messages, rows: list[LogRow]) -> list[LogRow]:
    """The same rows; messages with attachments list them."""
    found = store.attachments([row.id for row in rows if row.sender == "user"])
    if not found:
        return rows
    return [msgspec.structs.replace(row, attachments=found.get(row.id, ())) for row in rows]


def log_row(n: int, row: Row, turn: TurnRow | None) -> LogRow:
    """A message in the log, from its row."""
    message_id, facts, revision, _, created_ms, text, revised_ms = row
    known = read_facts(facts)
    return LogRow(
        n=n,
        id=message_id,
        sender=known.sender,
        voice=Voice(known.agent, known.role),
        account=known.account,
        under=known.under,
        blank=known.blank,
        kind=known.kind,
        text=text,
        revision=revision,
        created_ms=created_ms,
        edited_ms=revised_ms if revision > 1 else None,
        turn=turn,
    )


def open_store(url: str | None, path: Path, alone: Alone = nullcontext) -> Store:
    """The store at a PostgreSQL URL, else the SQLite file at ``path``; created or upgraded if needed.

    ``alone``: entered before it is upgraded."""
    db = _connect(url, path)
    try:
        migrate(db, alone=alone)
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
