"""Follows an attempt whose Segue was killed: reads its stream file to the end while its process lives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import anyio

from segue.agents.base import Agent
from segue.core import events as ev
from segue.core.model import Host
from segue.core.outcome import EndedBy
from segue.core.redact import Redactor
from segue.core.stream import LineSplitter, StreamLine, TurnState
from segue.runner.attempt import StreamFold
from segue.runner.supervisor import Limits
from segue.store.store import Store
from segue.system import clock, processes
from segue.system.groups import ProcessGroup, patient
from segue.turns.run_dir import Plan

PAUSE_S = 0.1
ASKED_S = 5.0
"""How long an orphan that asked something may wait for an answer that nobody can give."""
LIMITS = Limits()
"""The same for an orphan as for a process whose Segue lives."""
CHUNK = 1 << 20


class FollowedRun:
    """An attempt that may still run. ``ended_by`` is set if we ended it."""

    def __init__(
        self, plan: Plan, agent: Agent, redactor: Redactor, listen: Callable[[ev.Event], None]
    ) -> None:
        self.plan = plan
        self.ended_by: EndedBy | None = None
        self._fold = StreamFold(agent, plan.request, plan.runtime, redactor, listen)
        self._framer = LineSplitter()
        self._offset = 0
        self._asked_at: float | None = None
        self._said_at: float | None = None
        """When we read its final word."""

    @property
    def state(self) -> TurnState:
        """What it said so far."""
        return self._fold.state

    @property
    def lives(self) -> bool:
        return processes.attempt_lives(self.plan.run_dir)

    async def follow(self, given_up: Callable[[], bool]) -> bool:
        """Read until nobody of it is left; False when the caller gave up before."""
        while True:
            lives = self.lives  # asked before reading: so the last that it wrote is read
            grew = self._read()
            if not lives and not grew:
                break
            if lives and given_up():
                return False
            if lives:
                await self._end_if_due()
            await anyio.sleep(0 if grew else PAUSE_S)
        self._close()
        return True

    def look(self) -> None:
        """Read what stands there now, whoever may still write to it."""
        while self._read():
            pass
        self._close()

    def stderr(self) -> str:
        try:
            with (self.plan.run_dir / "stderr").open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 65_536))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    async def _end_if_due(self) -> None:
        """What ``Life`` does for a process of ours: see it off, clear up after it, keep its limits."""
        run_dir = self.plan.run_dir
        if await _cleared(run_dir):
            return
        if self._said_at is not None:
            if time.monotonic() - self._said_at > LIMITS.finish_s:
                await _end(processes.groups_of(run_dir), LIMITS.grace_s)
        elif (reason := self._overdue()) is not None:
            self.ended_by = reason
            await _end(processes.groups_of(run_dir), LIMITS.grace_s)

    def _overdue(self) -> EndedBy | None:
        limit = self.plan.time_s
        if limit is not None and clock.now_s() > self.plan.started_ms / 1000 + limit:
            return "timeout"
        if self._offset > LIMITS.output_bytes:
            return "flood"
        waits = self._asked_at is not None and time.monotonic() - self._asked_at > ASKED_S
        return "cancelled" if waits else None

    def _read(self) -> bool:
        """Take in the next piece; False when there is none yet."""
        try:
            with (self.plan.run_dir / "stdout").open("rb") as file:
                if file.seek(0, 2) < self._offset:  # it was emptied and begun anew
                    self._take(self._framer.finish())
                    self._offset = 0
                file.seek(self._offset)
                chunk = file.read(CHUNK)
        except OSError:
            return False
        self._offset += len(chunk)
        self._take(self._framer.feed(chunk))
        return bool(chunk)

    def _close(self) -> None:
        self._take(self._framer.finish())
        self._fold.close()

    def _take(self, lines: list[StreamLine]) -> None:
        for line in lines:
            for event in self._fold.feed(line):
                asks, now = isinstance(event, ev.Question | ev.Permission), time.monotonic()
                self._asked_at = now if asks else None
                self._said_at = now if isinstance(event, ev.End) else self._said_at


async def gone(run_dirs: Iterable[Path], given_up: Callable[[], bool]) -> bool:
    """Wait for attempts that cannot be read; False when the caller gave up before."""
    for run_dir in run_dirs:
        while processes.attempt_lives(run_dir):
            if given_up():
                return False
            if not await _cleared(run_dir):
                await anyio.sleep(PAUSE_S)
    return True


def attempt_runs(store: Store, conversation: str, host: Host) -> bool:
    """Whether an attempt of a turn that is not settled still runs on this machine, whoever looks after it."""
    return any(
        processes.attempt_lives(Path(attempt.run_dir))
        for row in store.unsettled(conversation)
        if row.state == "running" and processes.is_near(row.owner, host)
        for attempt in store.attempts(row.id)[-1:]
    )


async def _cleared(run_dir: Path) -> bool:
    """Whether the attempt's own process is gone; then what lingers of its group is ended."""
    if not processes.leader_is_gone(run_dir):
        return False
    await anyio.sleep(LIMITS.exit_grace_s)
    await _end(processes.lingering(run_dir), LIMITS.linger_s)
    return True


async def _end(groups: Iterable[int], grace_s: float) -> None:
    for group in groups:
        await ProcessGroup(group).end(grace_s, patient)
