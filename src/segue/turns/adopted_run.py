"""Adopts a run whose Segue was killed: follows it to its end, and ends it only if its own Segue would."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from pathlib import Path

import anyio

from segue.agents.base import Agent
from segue.core import events as ev
from segue.core.outcome import EndedBy
from segue.core.redact import Redactor
from segue.runner.supervisor import Limits
from segue.system import clock, processes
from segue.system.groups import ProcessGroup, patient
from segue.system.loop import run_sync
from segue.turns.follow import FollowedRun, Pauses
from segue.turns.run_dir import Plan

PAUSE_S = 0.1
ASKED_S = 5.0
"""How long an orphan that asked a question may wait, although nobody can answer it."""
CANCEL_S = 1.0
"""How often to check whether the turn was cancelled."""
LIMITS = Limits()
"""The same limits as for a process whose Segue is alive."""


class AdoptedRun(FollowedRun):
    """An attempt that may still run. ``ended_by`` is set if we ended it.

    ``cancel_asked``: whether the turn was asked to end. ``answered``: the ids of the questions whose answers
    it was sent.
    """

    def __init__(
        self,
        plan: Plan,
        agent: Agent,
        redactor: Redactor,
        listen: Callable[[ev.Event], None] | None = None,
        cancel_asked: Callable[[], bool] = lambda: False,
        answered: Collection[str] = (),
    ) -> None:
        super().__init__(plan, agent, redactor, listen)
        self._answered = answered
        self.ended_by: EndedBy | None = None
        self.cancelled = False
        """It was asked to end."""
        self._cancel_asked, self._look_at = cancel_asked, 0.0

    async def read_to_end(self, given_up: Callable[[], bool]) -> bool:
        """Read until no process of it is alive; False if the caller gave up before."""
        pauses = Pauses()
        with closing(self):
            while True:
                lives = self.lives  # checked before reading, so that its last output is read
                grew = self.read()
                if not lives and not grew:
                    return True
                if lives and given_up():
                    return False
                if lives:
                    await self._end_if_due()
                await anyio.sleep(pauses.next_s(grew))

    async def _end_if_due(self) -> None:
        """Do what the supervisor does for our own process: enforce its limits, end it and what lingers."""
        run_dir = self.plan.run_dir
        if await _cleared(run_dir):
            return
        if self.ended_at is not None:
            if time.monotonic() - self.ended_at > LIMITS.finish_s:
                await _end(processes.groups_of(run_dir), LIMITS.grace_s)
        elif (reason := await self._reason_to_end()) is not None:
            self.ended_by = reason
            await _end(processes.groups_of(run_dir), LIMITS.grace_s)

    async def _reason_to_end(self) -> EndedBy | None:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + CANCEL_S
            self.cancelled = await run_sync(self._cancel_asked)
        return "cancelled" if self.cancelled else self._overdue()

    def _overdue(self) -> EndedBy | None:
        limit = self.plan.time_s
        if limit is not None and clock.now_s() > self.plan.started_ms / 1000 + limit:
            return "timeout"
        if self.bytes_read > LIMITS.output_bytes:
            return "flood"
        return "cancelled" if self.waits and time.monotonic() - self.asked_at > ASKED_S else None

    @property
    def waits(self) -> list[ev.Question | ev.Permission]:
        """What it waits for an answer to."""
        return [each for each in self.asked if each.id not in self._answered]


async def gone(
    run_dirs: Iterable[Path], given_up: Callable[[], bool], cancel_asked: Callable[[], bool]
) -> bool:
    """Wait until attempts that cannot be read are gone; False if the caller gave up before."""
    for run_dir in run_dirs:
        while processes.attempt_lives(run_dir):
            if given_up():
                return False
            if not await _cleared(run_dir):
                if await run_sync(cancel_asked):
                    await _end(processes.groups_of(run_dir), LIMITS.grace_s)
                await anyio.sleep(PAUSE_S)
    return True


async def _cleared(run_dir: Path) -> bool:
    """Whether the attempt's own process is gone; then the rest of its group is ended."""
    if not processes.leader_is_gone(run_dir):
        return False
    await anyio.sleep(LIMITS.exit_grace_s)
    await _end(processes.lingering(run_dir), LIMITS.linger_s)
    return True


async def _end(groups: Iterable[int], grace_s: float) -> None:
    for group in groups:
        await ProcessGroup(group).end(grace_s, patient)
