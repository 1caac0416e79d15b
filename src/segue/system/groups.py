"""Ends processes reliably: TERM, a grace period, KILL, and a wait until they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

from segue.system.loop import anyio
from segue.system.processes import groups, marked_processes

KILL_WAIT_S = 5.0
ROUNDS = 10

Deadline = Callable[[], bool]


def patient() -> bool:
    """For callers that wait the whole grace period."""
    return False


class ProcessGroup:
    """A process group; its id is the PID of its leader."""

    def __init__(self, pgid: int) -> None:
        self.pgid = pgid
        self._known: list[int] = []
        self._gone = False

    def alive(self) -> bool:
        """Whether a member is alive. Once gone it stays gone, because its id may be reused."""
        if not self._gone:
            self._gone = not self._answers() or not self._members()
        return not self._gone

    def signal(self, number: int) -> None:
        if self.alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pgid, number)

    async def gone_within(self, seconds: float, hurry: Deadline = patient) -> bool:
        """Wait until no member is alive, for at most ``seconds`` or until ``hurry`` says so."""
        return await _until(lambda: not self.alive(), seconds, hurry)

    async def end(self, grace_s: float, hurry: Deadline) -> None:
        """TERM, then after the grace period KILL; return when no member is alive (bounded)."""
        self.signal(signal.SIGTERM)
        if not await self.gone_within(grace_s, hurry):
            self.signal(signal.SIGKILL)
            await self.gone_within(KILL_WAIT_S)

    def _answers(self) -> bool:
        try:
            os.killpg(self.pgid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # members of another user; or, on macOS, only zombies
        return True

    def _members(self) -> list[int]:
        # Checking the known members is cheap. Only when they are gone are all processes searched, and
        # twice: one that forks and exits in the meantime can slip through a single search.
        self._known = self._of_us(self._known) or self._of_us(None) or self._of_us(None)
        return self._known

    def _of_us(self, pids: Iterable[int] | None) -> list[int]:
        return [pid for pid, pgid in groups(pids).items() if pgid == self.pgid]


async def end_marked(value: str, grace_s: float, hurry: Deadline) -> None:
    """End the marked processes that left the group: TERM, then after the grace period KILL (bounded)."""
    found = marked_processes(value)
    if found:
        await _signal_each(found, signal.SIGTERM, grace_s, hurry)
    for _ in range(ROUNDS):
        if not found:
            return
        found = marked_processes(value)
        await _signal_each(found, signal.SIGKILL, KILL_WAIT_S / ROUNDS, patient)


async def _signal_each(pids: list[int], number: int, seconds: float, hurry: Deadline) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    await _until(lambda: not groups(pids), seconds, hurry)


async def _until(done: Callable[[], bool], seconds: float, hurry: Deadline) -> bool:
    """Poll with growing pauses: no system can notify about a process group."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not done():
        if hurry() or time.monotonic() >= deadline:
            return False
        await anyio.sleep(pause)
        pause = min(pause * 2, 0.02)
    return True
