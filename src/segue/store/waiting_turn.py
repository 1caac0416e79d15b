"""A turn that waits for another one shows this by a separate lease.

So every process that shares the store can tell it from one whose process or host is dead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from segue.core.model import Host, Owner
from segue.store import lease_rows
from segue.store.records import Claim, TurnRow
from segue.store.renewer import Renewal
from segue.store.store import Store
from segue.system import processes

UNSEEN_MS = 10 * 60_000
"""How long a run on another host may take from being received to showing that it waits. When it was received
is measured by that host's clock, which may be wrong."""


class WaitingTurn:
    """The lease that shows that a run waits: taken by ``begin``, released by ``end``."""

    def __init__(self, store: Store, run: str, owner: Owner) -> None:
        self._store, self._name, self._owner = store, lease_rows.waiting(run), owner
        self._claim: Claim | None = None
        self._renewal: Renewal | None = None

    def begin(self, on_beat: Callable[[], object] | None = None) -> None:
        with suppress(Exception):  # the store may be away; the turn waits anyway
            got = self._store.take_lease(self._name, self._owner, lambda _: "dead")
            if isinstance(got, lease_rows.Taken):
                claim = self._claim = got.claim
                self._renewal = Renewal(lambda: self._store.renew_lease(claim), on_beat=on_beat)
                self._store.renewer.add(self._renewal)

    def end(self) -> None:
        if self._renewal is not None:
            self._store.renewer.remove(self._renewal)
        if self._claim is not None:
            with suppress(Exception):
                self._store.renewer.insist(partial(self._store.release_lease, self._claim))


def shows_waiting(store: Store, run: str, host: Host) -> bool:
    """Whether a living process shows that it waits with this run."""
    sign = store.lease(lease_rows.waiting(run))
    if sign is None:
        return False
    alive = processes.owner_lives(sign.owner, host, sign.silent_ms)
    return alive if alive is not None else sign.silent_ms < lease_rows.DEAD_S * 1000


def is_waiting(store: Store, run: TurnRow, host: Host) -> bool:
    """Whether a process still waits to begin this run."""
    sign = store.lease(lease_rows.waiting(run.id))
    silent_ms = sign.silent_ms if sign is not None else max(0, store.clock_ms() - run.started_ms)
    alive = processes.owner_lives(run.owner, host, silent_ms)
    if alive is not None:
        return alive
    return silent_ms < (UNSEEN_MS if sign is None else lease_rows.DEAD_S * 1000)
