"""Receipts of runs: a caller's key belongs to one run of a conversation, and to one request."""

from __future__ import annotations

from segue.core.errors import Misuse
from segue.store.database import Queries, Section, Statement
from segue.store.records import KnownRun, Receipt, TurnRow

_SQL = Queries("receipts")
RECEIPT_MS = 30 * 24 * 3_600_000
"""How long a caller's key is remembered."""
CLEAR_MS = 24 * 3_600_000
"""How often a process drops those that are older."""


class Receipts(Section):
    """Kept within the transaction that stores the run."""

    _cleared_ms = 0
    """When those that are too old were dropped last, by this process."""

    def run_of_key(self, conversation: str, receipt: Receipt, now_ms: int) -> str | None:
        """The run that the key belongs to; None: it is free. Raises ``Misuse`` if that was for another
        request."""
        since_ms = now_ms - RECEIPT_MS
        row = self._db.one(_SQL.find, conversation=conversation, key=receipt.key, since_ms=since_ms)
        if row is None:
            return None
        run, body = row
        if body != receipt.body:
            known = f'the run key "{receipt.key}" was used for another request (run {run})'
            raise Misuse(f"{known}; a new request needs a new key")
        return str(run)

    def _store_with_receipt(self, insert: Statement, turn: TurnRow, receipt: Receipt | None) -> None:
        """Store the run by ``insert``, and its receipt. Raises ``KnownRun`` if the key already has a run;
        ``Misuse`` if that was for another request. The transaction is then rolled back."""
        if receipt is None:
            self._db.together(insert)
            return
        now_ms = turn.started_ms
        named = {"conversation": turn.conversation, "key": receipt.key, "run": turn.id}
        if receipt.failed is not None:
            self._db.together(insert, (_SQL.pass_on, {**named, "failed": receipt.failed}))
            return
        since_ms = now_ms - RECEIPT_MS
        keep = (_SQL.keep, {**named, "body": receipt.body, "ms": now_ms, "since_ms": since_ms})
        _, kept = self._db.together(insert, keep)
        if not kept:
            run = self.run_of_key(turn.conversation, receipt, now_ms)
            assert run is not None
            raise KnownRun(run)
        if not self._cleared_ms <= now_ms < self._cleared_ms + CLEAR_MS:
            self._cleared_ms = now_ms
            self._db.run(_SQL.drop, before_ms=since_ms)
