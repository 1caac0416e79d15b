"""One writer: holds a lease for as long as a turn needs it, or waits for whoever holds it.

A lease is a row in the store, renewed in the background, and on this machine also a file lock. It passes on
only when its holder is dead *and* nobody of the attempt's process group lives: a live orphan is taken over
with the lease, to be adopted.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal

import anyio
from anyio.to_thread import run_sync

from segue.store import leases
from segue.store.records import LeaseRow, Owner
from segue.store.store import Store
from segue.turns import owners

POLL_S = (0.05, 0.5)
"""How often a busy lease is asked for: at first, and when it takes long."""


class Busy(Exception):  # noqa: N818 - it is an answer, not an error
    """The lease could not be had in time."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"another turn is running ({holder})")
        self.holder = holder


class Lease:
    """A lease that is held. ``lost`` is called if somebody took it from us (we had stopped renewing it)."""

    def __init__(self, store: Store, name: str, token: str, lock: int, lost: Callable[[], None]) -> None:
        self._store, self._name, self._token, self._lock, self._lost = store, name, token, lock, lost
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def working_in(self, run_dir: Path) -> None:
        """Note where the attempt is that now runs under the lease."""
        leases.note_group(self._store, self._name, self._token, str(run_dir))

    def release(self) -> None:
        self._over.set()
        self._thread.join()
        with suppress(OSError):
            leases.release(self._store, self._name, self._token)
        os.close(self._lock)

    def _renew(self) -> None:
        while not self._over.wait(leases.RENEW_S):
            with suppress(Exception):  # the store may be busy or away for a moment; the next try will tell
                if not leases.renew(self._store, self._name, self._token, _now()):
                    self._lost()
                    return


@asynccontextmanager
async def hold(
    store: Store,
    name: str,
    *,
    owner: Owner,
    locks: Path,
    wait_s: float,
    on_wait: Callable[[str], None],
    given_up: Callable[[], bool],
    lost: Callable[[], None],
) -> AsyncIterator[Lease]:
    """Take the lease, waiting at most ``wait_s`` for its holder. Raises ``Busy``."""
    deadline, pause, said = time.monotonic() + wait_s, POLL_S[0], False
    while True:
        got = await run_sync(_try, store, name, owner, locks)
        if not isinstance(got, str):
            break
        if time.monotonic() >= deadline or given_up():
            raise Busy(got)
        if not said:
            on_wait(got)
            said = True
        await anyio.sleep(pause)
        pause = min(pause * 1.5, POLL_S[1])
    lease = Lease(store, name, got[0], got[1], lost)
    try:
        yield lease
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(lease.release)


def lease_name(conversation: str) -> str:
    return f"conversation:{conversation}"


def judge(row: LeaseRow, now_ms: int, host: str) -> Literal["alive", "dead", "orphan"]:
    """Whether the holder of a lease lives; ``orphan``: it does not, but what it had started does."""
    if row.owner.host != host:
        return "alive" if now_ms - row.renewed_ms < leases.DEAD_S * 1000 else "dead"
    if owners.lives(row.owner):
        return "alive"
    return "orphan" if row.group and owners.attempt_lives(Path(row.group)) else "dead"


def _try(store: Store, name: str, owner: Owner, locks: Path) -> tuple[str, int] | str:
    """The token and the file lock; or who holds the lease."""
    locks.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(
        locks / f"{sha256(name.encode()).hexdigest()[:32]}.lock",
        os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
        0o600,
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        got = leases.take(store, name, owner, _now(), lambda row, now: judge(row, now, owner.host))
    except BlockingIOError:
        os.close(lock)
        row = leases.find(store, name)
        return owners.short_name(row.owner) if row is not None else "another process"
    except BaseException:
        os.close(lock)
        raise
    if isinstance(got, leases.Busy):
        os.close(lock)
        return owners.short_name(got.holder.owner)
    return got.token, lock


def _now() -> int:
    return time.time_ns() // 1_000_000
