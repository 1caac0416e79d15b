"""Follows an attempt whose Segue was killed: reads its stream file to the end while its process lives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio

from segue.agents.base import Agent
from segue.core import events as ev
from segue.core.cleaning import Cleaning
from segue.core.frames import Line, Lines, Oversize
from segue.core.outcome import EndedBy
from segue.core.reading import Reading
from segue.core.redact import Redactor
from segue.turns import owners
from segue.turns.ending import Group, patient
from segue.turns.plan import Plan
from segue.turns.telling import Telling

PAUSE_S = 0.1
ASKED_S = 5.0
"""How long an orphan that asked something may wait for an answer that nobody can give."""
GRACE_S = 5.0
CHUNK = 1 << 20


class Orphan:
    """An attempt that may still run. ``reading`` is what it said; ``ended_by`` is set if we ended it."""

    def __init__(
        self, plan: Plan, agent: Agent, redactor: Redactor, listen: Callable[[ev.Event], None]
    ) -> None:
        self.plan, self._agent = plan, agent
        self.reading = Reading()
        self.ended_by: EndedBy | None = None
        self._cleaning = Cleaning(redactor)
        self._tell = Telling(listen, plan.request, plan.runtime)
        self._framer = Lines()
        self._offset = 0
        self._asked_at: float | None = None

    @property
    def lives(self) -> bool:
        return owners.attempt_lives(self.plan.run_dir)

    async def follow(self, given_up: Callable[[], bool]) -> bool:
        """Read until nobody of it is left; False when the caller gave up before."""
        while True:
            lives = self.lives
            grew = self._read()
            if not lives and not grew:
                break
            if given_up():
                return False
            if lives and (reason := self._overdue(grew)) is not None:
                await self.end(reason)
            await anyio.sleep(PAUSE_S if lives else 0)
        self._take(self._framer.finish())
        for shown in self._cleaning.rest():
            self._note(shown)
        self._tell.end()
        return True

    async def end(self, reason: EndedBy) -> None:
        self.ended_by = reason
        for group in owners.groups_of(self.plan.run_dir):
            await Group(group).end(GRACE_S, patient)

    def stderr(self) -> str:
        try:
            return (self.plan.run_dir / "stderr").read_text("utf-8", "replace")[-65_536:]
        except OSError:
            return ""

    def _overdue(self, grew: bool) -> EndedBy | None:
        limit, now = self.plan.time_s, time.time()
        if limit is not None and now > self.plan.started_ms / 1000 + limit:
            return "timeout"
        if grew or self._asked_at is None:
            return None
        return "cancelled" if now - self._asked_at > ASKED_S else None

    def _read(self) -> bool:
        grew = False
        for chunk in _chunks(self.plan.run_dir / "stdout", self._offset):
            self._offset += len(chunk)
            self._take(self._framer.feed(chunk))
            grew = True
        return grew

    def _take(self, lines: list[Line]) -> None:
        for line in lines:
            raw = None if isinstance(line, Oversize) else line
            events = self._agent.parse(raw) if raw is not None else ()
            for event in events:
                asks = isinstance(event, ev.Question | ev.Permission)
                self._asked_at = time.time() if asks else None
                for shown in self._cleaning(event, raw):
                    self._note(shown)

    def _note(self, event: ev.Event) -> None:
        self.reading.add(event)
        self._tell(event)


def _chunks(path: Path, offset: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError:
        return
