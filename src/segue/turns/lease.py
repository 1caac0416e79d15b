"""One writer: holds a lease for as long as a turn needs it, or waits for whoever holds it.

A lease is a row in the store, renewed in the background, and on this machine also a file lock. It passes on
when its holder is dead. What the holder had started may live on: who takes the conversation over adopts it;
who only wants its native session waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from segue.core.errors import StoreAway
from segue.core.hosts import Host
from segue.store import leases
from segue.store.records import Claim, Owner
from segue.store.store import Store
from segue.turns.grip import Grip, Taking, judge
from segue.turns.owners import this_process
from segue.turns.plan import Plan
from segue.turns.processes import machine_id
from segue.turns.waiting import Waiting

__all__ = [
    "OVERTAKEN",
    "Busy",
    "Lease",
    "alone",
    "hold",
    "judge",
    "lease_name",
    "native_lease",
    "session_lease_name",
]

OVERTAKEN = "another process took the conversation over while this one stood still"
POLL_S = (0.05, 0.5)
"""How often a busy lease is asked for: at first, and when it takes long."""
AWAY_S = 45.0
"""So long the store may be away while somebody waits."""


class Busy(Exception):  # noqa: N818 - it is an answer, not an error
    """The lease could not be had in time."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"another turn is running ({holder})")
        self.holder = holder


class Lease:
    """A lease that is held. ``on_loss`` is called if somebody took it from us: we had not renewed it."""

    def __init__(self, store: Store, grip: Grip, on_loss: Callable[[], None]) -> None:
        self._store, self._grip, self._on_loss = store, grip, on_loss
        self.lost = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew_often, daemon=True)
        self._thread.start()

    @property
    def claim(self) -> Claim:
        """What we show for it wherever something is written that only its holder may write."""
        return self._grip.claim

    def working_in(self, run_dir: Path) -> None:
        """Note where the attempt is that now runs under the lease."""
        leases.note_group(self._store, self.claim, str(run_dir))

    def renew(self) -> bool:
        """Whether it is still ours."""
        if not self.lost and not leases.renew(self._store, self.claim):
            self.lost = True
        return not self.lost

    def release(self) -> None:
        self._over.set()
        self._thread.join()
        self._grip.let_go()

    def _renew_often(self) -> None:
        while not self._over.wait(leases.RENEW_S):
            with suppress(Exception):  # the store may be busy or away for a moment; the next try will tell
                if not self.renew():
                    self._on_loss()
                    return


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
    adopts: bool = True,
    waiting: Waiting | None = None,
) -> AsyncIterator[Lease]:
    """Take the lease, waiting for its holder up to the moment ``until`` (monotonic). Raises ``Busy``.

    ``adopts``: the caller looks after what a dead holder has left running. ``waiting``: the sign to show
    meanwhile.
    """
    grip = await _grip(Taking(store, name, owner, locks, adopts), until, on_wait, given_up, waiting)
    lease = Lease(store, grip, on_loss)
    try:
        yield lease
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(lease.release)


async def _grip(
    taking: Taking,
    until: float,
    on_wait: Callable[[str], None],
    given_up: Callable[[], bool],
    waiting: Waiting | None,
) -> Grip:
    pause, holder, heard_at = POLL_S[0], "", 0.0
    with taking:
        try:
            while True:
                try:
                    got = await run_sync(taking.take)
                except StoreAway:  # who waits anyway waits for the store, too
                    if not holder or time.monotonic() > heard_at + AWAY_S:
                        raise
                    got = holder
                else:
                    heard_at = time.monotonic()
                if isinstance(got, Grip):
                    return taking.kept()
                if time.monotonic() >= until or given_up():
                    raise Busy(got)
                if not holder:
                    on_wait(got)
                    if waiting is not None:
                        await run_sync(waiting.begin)
                holder = got
                await anyio.sleep(pause)
                pause = min(pause * 1.5, POLL_S[1])
        finally:
            if holder and waiting is not None:
                with anyio.CancelScope(shield=True):
                    await run_sync(waiting.end)


def alone(
    store: Store, name: str, *, host: Host, locks: Path, wait_s: float = 0, adopts: bool = False
) -> AbstractAsyncContextManager[Lease]:
    """The lease for a moment of work that is no turn: nobody is told of a wait, and it is not given up."""
    return hold(
        store,
        name,
        owner=this_process(host),
        locks=locks,
        until=time.monotonic() + wait_s,
        on_wait=lambda _: None,
        given_up=lambda: False,
        on_loss=lambda: None,
        adopts=adopts,
    )


def lease_name(conversation: str) -> str:
    return f"conversation:{conversation}"


def native_lease(agent: str, host: Host, session: str) -> str:
    """On a machine a session is one, from whichever home of Segue it is gone on with."""
    return f"session:{agent}:{machine_id() or host.id or host.name}:{session}"


def session_lease_name(plan: Plan) -> str | None:
    """A native session that is resumed has one writer too, whatever conversation it is in."""
    start = plan.request.start
    if start.mode != "resume" or start.session is None:
        return None
    return native_lease(plan.voice.agent, Host(plan.host, plan.host_id), start.session)
