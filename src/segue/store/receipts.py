"""Receipts of runs: a caller's key belongs to one run of a conversation, and to one request."""

from __future__ import annotations

from segue.core.errors import Misuse
from segue.store.database import Queries, Section
from segue.store.records import KnownRun, Receipt, TurnRow

_SQL = Queries("receipts")
RECEIPT_MS = 30 * 24 * 3_600_000
"""How long a caller's key is remembered."""


class Receipts(Section):
    """Kept within the transaction that stores the run."""

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

    def _find_receipt(self, turn: TurnRow, receipt: Receipt | None) -> None:
        """Raise ``KnownRun`` if the key already has a run; ``Misuse`` if that was for another request."""
        if receipt is None or receipt.failed is not None:
            return
        self._db.run(_SQL.drop, before_ms=turn.started_ms - RECEIPT_MS)
        run = self.run_of_key(turn.conversation, receipt, turn.started_ms)
        if run is not None:
            raise KnownRun(run)

    def _keep_receipt(self, turn: TurnRow, receipt: Receipt | None) -> None:
        if receipt is None:
            return
        named = {"conversation": turn.conversation, "key": receipt.key, "run": turn.id}
        if receipt.failed is not None:
            self._db.run(_SQL.pass_on, **named, failed=receipt.failed)
        else:
            self._db.run(_SQL.keep, **named, body=receipt.body, ms=turn.started_ms)
