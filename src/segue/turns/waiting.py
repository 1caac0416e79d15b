"""A turn that waits for another one shows that it does: by a lease of its own, renewed as long as it waits.

So whoever shares the store, wherever they are, can tell it from one whose process or host is dead.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from segue.core.hosts import Host
from segue.store import leases
from segue.store.records import Claim, Owner, TurnRow
from segue.store.store import Store
from segue.turns import owners

UNSEEN_MS = 10 * 60_000
"""So long a run elsewhere may take from being heard to showing that it waits. When it was heard was told by
its own clock, which may be wrong."""


class Waiting:
    """The sign that a run waits. It is shown when ``begin`` is called, and taken back by ``end``."""

    def __init__(self, store: Store, run: str, owner: Owner) -> None:
        self._store, self._name, self._owner = store, leases.waiting(run), owner
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        with suppress(Exception):  # the store may be away; whoever waits waits all the same
            got = leases.take(self._store, self._name, self._owner, lambda _: "dead")
            if isinstance(got, leases.Taken):
                self._thread = threading.Thread(target=self._renew, args=(got.claim,), daemon=True)
                self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _renew(self, claim: Claim) -> None:
        while not self._over.wait(leases.RENEW_S):
            with suppress(Exception):
                leases.renew(self._store, claim)
        with suppress(Exception):
            leases.release(self._store, claim)


def waits(store: Store, run: TurnRow, host: Host) -> bool:
    """Whether somebody still waits to begin this run."""
    sign = leases.find(store, leases.waiting(run.id))
    silent_ms = sign.silent_ms if sign is not None else max(0, leases.now_ms(store) - run.started_ms)
    alive = owners.lives(run.owner, host, silent_ms)
    if alive is not None:
        return alive
    return silent_ms < (UNSEEN_MS if sign is None else leases.DEAD_S * 1000)
