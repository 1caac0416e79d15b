"""Renews all the leases of a store in one thread, and calls their holders once a second.

It also repeats what could not be written because the store was away: others would believe what is stored as
long as this process lives. The thread runs while there is something to do. Each store has its own thread, so
that a database that does not answer does not cost the leases of another one; usually a process has one store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from segue.core.errors import StoreAway
from segue.store.lease_rows import RENEW_S

BEAT_S = 1
"""How often a holder's ``on_beat`` is called."""
AGAIN_S = 1.0
"""How often a write is repeated while the store is away."""
T = TypeVar("T")


class Renewal:
    """One lease to renew, with its callbacks.

    ``renew`` returns whether the lease is still held. If it is not, ``on_loss`` is called, and nothing more
    after it. ``on_beat`` is called every ``beat_s`` seconds. All three are called in the renewer's thread and
    must be short. Their exceptions are ignored: the store may be away for a moment.
    """

    def __init__(
        self,
        renew: Callable[[], bool],
        on_loss: Callable[[], object] | None = None,
        on_beat: Callable[[], object] | None = None,
        *,
        renew_s: float = RENEW_S,
        beat_s: float = BEAT_S,
    ) -> None:
        self._renew, self._on_loss, self._on_beat = renew, on_loss, on_beat
        self._renew_s, self._beat_s = renew_s, beat_s
        now = time.monotonic()
        self._renew_at = now + renew_s
        self._beat_at = now + beat_s if on_beat is not None else float("inf")

    @property
    def due_at(self) -> float:
        """When ``call`` is due next, on the monotonic clock."""
        return min(self._renew_at, self._beat_at)

    def call(self) -> bool:
        """Do what is due. False: the lease is lost."""
        held = True
        if time.monotonic() >= self._renew_at:
            held = self._held()
            self._renew_at = time.monotonic() + self._renew_s
        if held and self._on_beat is not None and time.monotonic() >= self._beat_at:
            with suppress(BaseException):
                self._on_beat()
            self._beat_at = time.monotonic() + self._beat_s
        return held

    def _held(self) -> bool:
        held = True
        with suppress(BaseException):  # the next try will show
            held = self._renew()
        if not held and self._on_loss is not None:
            with suppress(BaseException):
                self._on_loss()
        return held


class Renewer:
    """The renewals of one store. It can be used from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._renewals: list[Renewal] = []
        self._calling: Renewal | None = None
        self._thread: threading.Thread | None = None

    def add(self, renewal: Renewal) -> None:
        with self._changed:
            self._renewals.append(renewal)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="lease-renewer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def insist(self, write: Callable[[], T], *, again_s: float = AGAIN_S) -> T:
        """Write something. If the store is away, ``StoreAway`` is raised, and it is written as soon as the
        store is back, unless this process ends before: it must then be written by whoever finds that out."""

        def still_away() -> bool:
            with suppress(Exception):  # if it fails in any other way, it would fail again
                try:
                    write()
                except StoreAway:
                    return True
            return False

        try:
            return write()
        except StoreAway:
            self.add(Renewal(still_away, renew_s=again_s))
            raise

    def remove(self, renewal: Renewal) -> None:
        """None of its callbacks is called once this returns."""
        with self._changed:
            if renewal in self._renewals:
                self._renewals.remove(renewal)
            self._changed.notify_all()
            while self._calling is renewal and threading.current_thread() is not self._thread:
                self._changed.wait()

    def _work(self) -> None:
        while (renewal := self._next()) is not None:
            held = renewal.call()
            with self._changed:
                self._calling = None
                if not held and renewal in self._renewals:
                    self._renewals.remove(renewal)
                self._changed.notify_all()

    def _next(self) -> Renewal | None:
        """Wait for the next renewal that is due; None if none is left."""
        with self._changed:
            while self._renewals:
                first = min(self._renewals, key=lambda each: each.due_at)
                pause = first.due_at - time.monotonic()
                if pause <= 0:
                    self._calling = first
                    return first
                self._changed.wait(pause)
            self._thread = None
            return None
