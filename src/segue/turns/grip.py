"""Takes a lease: the file lock of this machine first, then the row that all machines see."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from segue.core.hosts import Host
from segue.store import leases
from segue.store.leases import Verdict
from segue.store.records import Claim, LeaseRow, Owner
from segue.store.store import Store
from segue.turns import owners

SEEN_S = 2 * leases.RENEW_S
"""So long we must have seen ourselves that a holder elsewhere stands still: the store may have been away."""
SURELY_DEAD_S = 120
"""After so long by the store's clock alone."""
_HELD: set[str] = set()
"""The tokens of the leases that this process holds."""


def judge(row: LeaseRow, host: Host) -> Verdict:
    """Whether the holder of a lease lives; ``orphan``: it does not, but what it had started does.

    A holder that cannot be seen from here is judged by how long it has been silent.
    """
    lives = owners.lives(row.owner, host, row.silent_ms)
    if lives is None:
        lives = row.silent_ms < leases.DEAD_S * 1000
    elif row.owner.pid == os.getpid() and row.token not in _HELD:  # we have let go of it
        lives = False
    if lives:
        return "alive"
    near = row.group is not None and owners.is_near(row.owner, host)
    return "orphan" if near and owners.attempt_lives(Path(row.group or "")) else "dead"


class Grip:
    """A lease that is ours: what we show for it, and the file lock."""

    def __init__(self, store: Store, claim: Claim, lock: int) -> None:
        self._store, self.claim, self._lock = store, claim, lock
        _HELD.add(claim.token)

    def let_go(self) -> None:
        """Whatever fails here, the lease is not held any more: its row is one of a dead holder then."""
        _HELD.discard(self.claim.token)
        try:
            with suppress(Exception):
                leases.release(self._store, self.claim)
        finally:
            os.close(self._lock)


class Taking:
    """Tries again and again, each time in a thread. Whoever is interrupted meanwhile has taken nothing."""

    def __init__(self, store: Store, name: str, owner: Owner, locks: Path, adopts: bool) -> None:
        self._store, self._name, self._owner, self._adopts = store, name, owner, adopts
        self._host = Host(owner.host, owner.host_id)
        self._path = locks / f"{sha256(name.encode()).hexdigest()[:32]}.lock"
        self._seen: tuple[str, int] | None = None
        self._seen_at = self._looked_at = 0.0
        self._turn = threading.Lock()
        self._left = False
        self._grip: Grip | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            self._left = True
            if self._grip is not None:
                self._grip.let_go()

    def take(self) -> Grip | str:
        """The lease, or who holds it."""
        with self._turn:
            if self._left:
                return "nobody"
            got = self._try()
            self._grip = got if isinstance(got, Grip) else None
            return got

    def kept(self) -> Grip:
        """It is the caller's from now on."""
        grip, self._grip = self._grip, None
        assert grip is not None
        return grip

    def _try(self) -> Grip | str:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            got = leases.take(self._store, self._name, self._owner, self._judge)
        except BlockingIOError:
            os.close(lock)
            row = leases.find(self._store, self._name)
            return owners.short_name(row.owner) if row is not None else "another process"
        except BaseException:
            os.close(lock)
            raise
        if isinstance(got, leases.Busy):
            os.close(lock)
            return owners.short_name(got.holder.owner)
        return Grip(self._store, got.claim, lock)

    def _judge(self, row: LeaseRow) -> Verdict:
        verdict = judge(row, self._host)
        if owners.lives(row.owner, self._host, row.silent_ms) is None:
            watched = self._stands_still(row) >= SEEN_S or row.silent_ms >= SURELY_DEAD_S * 1000
            verdict = verdict if watched else "alive"
        return "alive" if verdict == "orphan" and not self._adopts else verdict

    def _stands_still(self, row: LeaseRow) -> float:
        """For how many seconds of our own the holder has not renewed it, while we looked all the time."""
        now, seen = time.monotonic(), (row.token, row.renewed_ms)
        if seen != self._seen or now - self._looked_at > leases.RENEW_S:
            self._seen, self._seen_at = seen, now
        self._looked_at = now
        return now - self._seen_at
