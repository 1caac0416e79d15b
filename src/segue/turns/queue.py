"""The queue as a turn sees it that somebody waits for: queued runs that stand before it come first."""

from __future__ import annotations

from collections.abc import Callable

from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system.processes import owner_lives
from segue.turns.prepare import Prepared

JUST_NOW_MS = 60_000
"""For how long a driver that cannot be seen from here counts as alive."""


class Queue:
    """Whether a turn has to wait for queued runs. Without a daemon nobody runs them: it goes ahead."""

    def __init__(self, prepared: Prepared, store: Store, row: TurnRow, notice: Callable[[str], None]) -> None:
        self._prepared, self._store, self._row, self._notice = prepared, store, row, notice
        self._told = False

    def first(self) -> str | None:
        """Who comes first; None: nobody."""
        owners = self._store.ahead(self._row.id)
        if not owners:
            return None
        count = f"{len(owners)} queued message{'s' if len(owners) > 1 else ''}"
        if any(owner_lives(owner, self._prepared.host, JUST_NOW_MS) for owner in owners):
            return f"{count} before it"
        if not self._told:
            self._told = True
            wait = "wait" if len(owners) > 1 else "waits"
            key = self._prepared.ask.conversation
            self._notice(f"{count} of {key} {wait} for a daemon; start one with: segue serve")
        return None
