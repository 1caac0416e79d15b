"""The queue as a turn sees it that is about to begin: what came before it comes first."""

from __future__ import annotations

import math
from collections.abc import Callable

from segue.store.records import QUEUED, TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import is_waiting
from segue.system.processes import owner_lives
from segue.turns.prepare import Prepared

WAIT_S = 600.0
"""How long a turn waits for another one of its conversation, unless told otherwise."""
JUST_NOW_MS = 60_000
"""For how long a driver that cannot be seen from here counts as alive."""


class Queue:
    """Whether a turn has to wait for others that came before it. Without a daemon nobody runs what is queued:
    it goes ahead."""

    def __init__(self, prepared: Prepared, store: Store, row: TurnRow, notice: Callable[[str], None]) -> None:
        self._prepared, self._store, self._row, self._notice = prepared, store, row, notice
        self._told = False

    def first(self) -> str | None:
        """Who comes first; None: nobody."""
        rows, host = self._store.ahead(self._row.id), self._prepared.host
        if any(row.via != QUEUED and is_waiting(self._store, row, host) for row in rows):
            return "a message that came before it"
        queued = [row for row in rows if row.via == QUEUED]
        if not queued or self._row.via == QUEUED:  # whoever drives the queue keeps its order
            return None
        count = f"{len(queued)} queued message{'s' if len(queued) > 1 else ''}"
        if any(owner_lives(row.owner, host, JUST_NOW_MS) for row in queued):
            return f"{count} before it"
        if not self._told:
            self._told = True
            wait = "wait" if len(queued) > 1 else "waits"
            key = self._prepared.ask.conversation
            self._notice(f"{count} of {key} {wait} for a daemon; start one with: segue serve")
        return None


def wait_s(prepared: Prepared, endless: bool = False) -> float:
    """``endless``: for a run that is this call's own."""
    if endless:
        return math.inf
    for wanted in (prepared.ask.wait_s, prepared.config.defaults.wait):
        if wanted is not None:
            return wanted
    return WAIT_S
