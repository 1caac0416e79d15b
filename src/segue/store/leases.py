"""One writer: holds a lease for as long as a turn needs it, or waits for its holder.

A lease is a row in the store that all machines see, renewed in the background, and on this machine also a
file lock. It can be taken over when its holder is dead. A process that the holder started may still be alive:
whoever takes the conversation over adopts it; whoever only needs its native session waits for it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from segue.core.errors import InUse, StoreAway
from segue.core.ids import sha256_hex
from segue.core.model import Host, Owner
from segue.store import lease_rows
from segue.store.lease_rows import Verdict
from segue.store.records import BEGUN, Claim, Conversation, LeaseRow
from segue.store.renewer import Renewal
from segue.store.store import Store
from segue.store.waiting_turn import WaitingTurn
from segue.system import processes
from segue.system.loop import anyio, in_loop, run_sync, shield
from segue.system.processes import machine_id, this_process

SEEN_S = 2 * lease_rows.RENEW_S
"""How long we must have seen ourselves that a remote holder does not renew: the store may have been away."""
SURELY_DEAD_S = 120
"""After this long the store's clock alone is enough."""
OVERTAKEN = "another process took the conversation over while this one was not responding"
POLL_S = (0.05, 0.5)
"""The pause between two tries for a busy lease: at first, and at most."""
AWAY_S = 45.0
"""How long the store may be away while a process waits."""
_HELD: set[str] = set()
"""The tokens of the leases that this process holds."""


def judge(row: LeaseRow, host: Host) -> Verdict:
    """Whether the holder of a lease is alive; ``orphan``: it is dead, but a process that it started is alive.

    A holder that cannot be seen from here is judged by the time since its last renewal.
    """
    lives = processes.owner_lives(row.owner, host, row.silent_ms)
    if lives is None:
        lives = row.silent_ms < lease_rows.DEAD_S * 1000
    elif row.owner.pid == os.getpid() and row.token not in _HELD:  # we have released it
        lives = False
    if lives:
        return "alive"
    near = row.group is not None and processes.is_near(row.owner, host)
    return "orphan" if near and processes.attempt_lives(Path(row.group or "")) else "dead"


class LeaseLock:
    """A lease that is ours: the claim and the file lock."""

    def __init__(self, store: Store, claim: Claim, lock: int) -> None:
        self._store, self.claim, self._lock = store, claim, lock
        _HELD.add(claim.token)

    def let_go(self) -> None:
        """Release the lease. As long as its row cannot be deleted, it counts as that of a dead holder; but
        only here: others see that we live, and wait."""
        _HELD.discard(self.claim.token)
        try:
            with suppress(Exception):
                self._store.renewer.insist(partial(self._store.release_lease, self.claim))
        finally:
            os.close(self._lock)


class Acquiring:
    """Tries to take a lease, each time in a thread. If the caller is interrupted, nothing stays taken."""

    def __init__(self, store: Store, name: str, owner: Owner, locks: Path, adopts: bool) -> None:
        self._store, self._name, self._owner, self._adopts = store, name, owner, adopts
        self._host = Host(owner.host, owner.host_id)
        self._path = locks / f"{sha256_hex(name.encode())[:32]}.lock"
        self._seen: tuple[str, int] | None = None
        self._seen_at = self._looked_at = 0.0
        self._turn = threading.Lock()
        self._left = False
        self._lock: LeaseLock | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            self._left = True
            if self._lock is not None:
                self._lock.let_go()

    def take(self) -> LeaseLock | str:
        """The lease, or who holds it."""
        with self._turn:
            if self._left:
                return "nobody"
            got = self._try()
            self._lock = got if isinstance(got, LeaseLock) else None
            return got

    def kept(self) -> LeaseLock:
        """Pass the lease to the caller."""
        lock, self._lock = self._lock, None
        assert lock is not None
        return lock

    def _try(self) -> LeaseLock | str:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            got = self._store.take_lease(self._name, self._owner, self._judge)
        except BlockingIOError:
            os.close(lock)
            row = self._store.lease(self._name)
            return processes.short_name(row.owner) if row is not None else "another process"
        except BaseException:
            os.close(lock)
            raise
        if isinstance(got, lease_rows.Busy):
            os.close(lock)
            return processes.short_name(got.holder.owner)
        return LeaseLock(self._store, got.claim, lock)

    def _judge(self, row: LeaseRow) -> Verdict:
        verdict = judge(row, self._host)
        if processes.owner_lives(row.owner, self._host, row.silent_ms) is None:
            watched = self._stands_still(row) >= SEEN_S or row.silent_ms >= SURELY_DEAD_S * 1000
            verdict = verdict if watched else "alive"
        return "alive" if verdict == "orphan" and not self._adopts else verdict

    def _stands_still(self, row: LeaseRow) -> float:
        """For how many seconds we have watched the holder without seeing a renewal."""
        now, seen = time.monotonic(), (row.token, row.renewed_ms)
        if seen != self._seen or now - self._looked_at > lease_rows.RENEW_S:
            self._seen, self._seen_at = seen, now
        self._looked_at = now
        return now - self._seen_at


class LeaseBusy(Exception):  # noqa: N818 - it is an answer, not an error
    """The lease could not be taken in time."""

    def __init__(self, holder: str, message: str | None = None) -> None:
        super().__init__(message or f"another turn is running ({holder})")
        self.holder = holder


class Lease:
    """A lease that is held. ``on_loss`` is called if another process took it because we did not renew it."""

    def __init__(
        self,
        store: Store,
        lock: LeaseLock,
        on_loss: Callable[[], None],
        on_beat: Callable[[], object] | None = None,
    ) -> None:
        self._store, self._lock = store, lock
        self.lost = False
        self._renewal = Renewal(self.renew, on_loss, on_beat)
        store.renewer.add(self._renewal)

    @property
    def claim(self) -> Claim:
        """The proof for writes that only the holder may make."""
        return self._lock.claim

    def working_in(self, run_dir: Path) -> None:
        """Record the directory of the attempt that now runs under the lease."""
        self._store.note_group(self.claim, str(run_dir))

    def renew(self) -> bool:
        """Whether it is still ours."""
        if not self.lost and not self._store.renew_lease(self.claim):
            self.lost = True
        return not self.lost

    def release(self) -> None:
        self._store.renewer.remove(self._renewal)
        self._lock.let_go()


@asynccontextmanager
async def hold(
    store: Store,
    name: str,
    *,
    owner: Owner,
    locks: Path,
    until: float,
    on_wait: Callable[[str], None],
    given_up: Callable[[], bool],
    on_loss: Callable[[], None],
    on_beat: Callable[[], object] | None = None,
    adopts: bool = True,
    waiting: WaitingTurn | None = None,
    behind: Callable[[], str | None] | None = None,
) -> AsyncIterator[Lease]:
    """Take the lease, waiting for its holder until ``until`` (monotonic). Raises ``LeaseBusy``.

    ``behind``: says who comes first, although the lease may be free; None: nobody.
    ``adopts``: the caller takes care of what a dead holder left running. ``waiting``: shows others that this
    turn waits. ``on_loss`` and ``on_beat`` are called in the renewer's thread; ``on_beat`` every second while
    the lease is held, and with ``waiting`` also while waiting for it.
    """
    acquiring = Acquiring(store, name, owner, locks, adopts)
    take = partial(_take, acquiring, behind)
    lock = await _acquire(acquiring, take, until, on_wait, given_up, waiting, on_beat)
    lease = Lease(store, lock, on_loss, on_beat)
    try:
        yield lease
    finally:
        with shield():
            await run_sync(lease.release)


def _take(acquiring: Acquiring, behind: Callable[[], str | None] | None) -> LeaseLock | str:
    """The lease, or who has it or comes first."""
    first = behind() if behind is not None else None
    return first if first is not None else acquiring.take()


async def _acquire(
    acquiring: Acquiring,
    take: Callable[[], LeaseLock | str],
    until: float,
    on_wait: Callable[[str], None],
    given_up: Callable[[], bool],
    waiting: WaitingTurn | None,
    on_beat: Callable[[], object] | None,
) -> LeaseLock:
    pause, holder, answered_at = POLL_S[0], "", 0.0
    with acquiring:
        try:
            while True:
                try:
                    got = await run_sync(take)
                except StoreAway:  # while waiting for the holder, wait for the store too
                    if not holder or time.monotonic() > answered_at + AWAY_S:
                        raise
                    got = holder
                else:
                    answered_at = time.monotonic()
                if isinstance(got, LeaseLock):
                    return acquiring.kept()
                if time.monotonic() >= until or given_up():
                    raise LeaseBusy(got)
                if not holder:
                    on_wait(got)
                    if waiting is not None:
                        await run_sync(waiting.begin, on_beat)
                holder = got
                await in_loop()
                await anyio.sleep(pause)
                pause = min(pause * 1.5, POLL_S[1])
        finally:
            if holder and waiting is not None:
                with shield():
                    await run_sync(waiting.end)


def alone(
    store: Store,
    name: str,
    *,
    host: Host,
    locks: Path,
    wait_s: float = 0,
    adopts: bool = False,
    given_up: Callable[[], bool] = lambda: False,
) -> AbstractAsyncContextManager[Lease]:
    """The lease for short work outside a turn: waiting is not reported."""
    return hold(
        store,
        name,
        owner=this_process(host),
        locks=locks,
        until=time.monotonic() + wait_s,
        on_wait=lambda _: None,
        given_up=given_up,
        on_loss=lambda: None,
        adopts=adopts,
    )


@asynccontextmanager
async def held_for_change(
    store: Store,
    conversation: Conversation,
    *,
    host: Host,
    locks: Path,
    wait_s: float,
) -> AsyncIterator[None]:
    """Hold the conversation while it is changed. Raises ``InUse`` at once if a turn of it runs.

    A turn that is over, but still holds the conversation, is waited for. If anything is said meanwhile, the
    change is refused as well: whoever asked for it has not seen that."""
    said, running = await run_sync(_standing, store, conversation)

    def runs() -> bool:
        return bool(_begun(store, conversation))

    try:
        name = lease_name(conversation.id)
        async with alone(store, name, host=host, locks=locks, wait_s=wait_s, adopts=True, given_up=runs):
            if attempt_runs(store, conversation.id, host):
                raise LeaseBusy("its Segue was killed; segue run follows it to its end")
            if await run_sync(_standing, store, conversation) != (said, running):
                raise InUse(f"{conversation.key} has just gone on; look at it, and try again")
            yield
    except LeaseBusy as busy:
        raise InUse(f"{conversation.key} cannot be changed now: {busy}") from None


def _standing(store: Store, conversation: Conversation) -> tuple[list[str], list[str]]:
    """The messages of the conversation, and its runs that have begun and are not over."""
    return [each.id for each in store.messages(conversation.id)], _begun(store, conversation)


def _begun(store: Store, conversation: Conversation) -> list[str]:
    return sorted(row.id for row in store.unsettled(conversation.id) if row.state in BEGUN)


def attempt_runs(store: Store, conversation: str, host: Host) -> bool:
    """Whether an attempt of an unsettled turn still runs on this machine, with or without its Segue."""
    return any(
        processes.attempt_lives(Path(attempt.run_dir))
        for row in store.unsettled(conversation)
        if row.state in BEGUN and processes.is_near(row.owner, host)
        for attempt in store.attempts(row.id)[-1:]
    )


def lease_name(conversation: str) -> str:
    return f"conversation:{conversation}"


def native_lease(agent: str, host: Host, session: str) -> str:
    """The same name for all homes of Segue on a machine, because they share the session."""
    return f"session:{agent}:{machine_id() or host.id or host.name}:{session}"
