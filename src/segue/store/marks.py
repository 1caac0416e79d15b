"""Whose words turns were given, and which marks messages have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from segue.core.json_values import decode
from segue.core.view import old_account_mark
from segue.store.database import Queries, Row
from segue.store.messages import Messages, read_facts

_SQL = Queries("marks")
Step = tuple[str, str]
"""A flow's id and the key of one of its steps."""


class Marks(Messages):
    """A turn has begun once it is recorded how it carries the past."""

    def of_flow(self, flow: str, but: str = "") -> tuple[str, ...]:
        """Whose words the turns of a flow were given that have begun, and their own. ``but``: the run of
        another turn, which is left out."""
        return self._all(self._db.all(_SQL.of_flow, flow=flow, run=but))

    def of_runs(self, runs: Sequence[str]) -> tuple[str, ...]:
        """The same for these runs."""
        return self._all(self._db.among(_SQL.of_runs, runs)) if runs else ()

    def of_session(self, agent: str, native_id: str, account: str | None) -> tuple[str, ...]:
        """The same for each turn that wrote to a native session. ``account``: whose session it is, if that is
        stored; it counts if no turn of it is stored any more."""
        found = self._all(self._db.all(_SQL.of_native, agent=agent, native_id=native_id))
        if found or account is None:
            return found
        return (old_account_mark(agent, account),)

    def of_actions(self, scope: str, since_ms: int) -> dict[Step, tuple[str, ...]]:
        """The same for each step whose actions count for the cooldowns of ``scope``."""
        found: dict[Step, tuple[str, ...]] = {}
        for flow, step, *row in self._db.all(_SQL.of_actions, scope=scope, since_ms=since_ms):
            found[flow, step] = _joined((*found.get((flow, step), ()), *self._of(tuple(row))))
        return found

    def of_message(self, message: str) -> tuple[tuple[str, ...], bool]:
        """The marks of a message, and whether Segue has composed it."""
        row = self._db.one(_SQL.of_message, id=message)
        if row is None:
            return (), False
        conversation, facts, composed = row
        return self._login_marks(conversation, read_facts(facts).under), bool(composed)

    def _all(self, rows: Iterable[Row]) -> tuple[str, ...]:
        return _joined(mark for row in rows for mark in self._of(row))

    def _of(self, row: Row) -> tuple[str, ...]:
        under, conversation, agent, account, facts = row
        if under is not None:
            return decode(under, tuple[str, ...])
        marks = read_facts(facts).under if facts is not None else ()
        return self._login_marks(conversation, marks or (old_account_mark(agent, account),))


def _joined(marks: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(marks)))
