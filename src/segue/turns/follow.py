"""Follows a run by its stream file, whether this process runs it, another one, or none any more.

Nothing is written and no process is ended: any number of processes can follow a run.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import anyio

from segue.agents.base import Agent
from segue.core import events as ev
from segue.core.redact import Redactor
from segue.core.stream import LineSplitter, StreamLine, TurnState
from segue.core.turn import Turn, status_of
from segue.runner.attempt import StreamFold
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system import processes
from segue.system.loop import run_sync
from segue.turns.observer import Observer
from segue.turns.report import report_row
from segue.turns.run_dir import Plan, read_plan

PAUSE_S = (0.001, 0.02)
"""How long to wait for more while a stream grows: at first, and at most."""
QUIET_S = 2.0
"""After this long without output the pauses grow."""
QUIET_PAUSE_S = 0.1
LOOK_S = 0.1
"""How often the store is asked whether the run is settled, or has another attempt."""
CHUNK = 1 << 20


class FollowedRun:
    """The stream of one attempt, read as events. The process may still write to it, or be long gone.

    ``offset``: where to begin, in bytes; it must be the beginning of a line.
    """

    def __init__(
        self,
        plan: Plan,
        agent: Agent,
        redactor: Redactor,
        listen: Callable[[ev.Event], None] | None = None,
        *,
        offset: int = 0,
    ) -> None:
        self.plan = plan
        self._fold = StreamFold(agent, plan.request, plan.runtime, redactor, listen)
        self._framer = LineSplitter()
        self._file: BinaryIO | None = None
        self.bytes_read = offset
        self.asked: list[ev.Question | ev.Permission] = []
        """What it has asked, as far as nothing shows that it was answered."""
        self.asked_at = 0.0
        """When something last happened while a question was open (monotonic)."""
        self.ended_at: float | None = None
        """When its final event was read (monotonic)."""

    @property
    def state(self) -> TurnState:
        """The state after the events so far."""
        return self._fold.state

    @property
    def lives(self) -> bool:
        return processes.attempt_lives(self.plan.run_dir)

    def read(self) -> bool:
        """Read the next piece; False if there is none yet."""
        try:
            file = self._open()
            if file.seek(0, 2) < self.bytes_read:  # it was truncated
                self._take(self._framer.finish())
                self.bytes_read = 0
            file.seek(self.bytes_read)
            chunk = file.read(CHUNK)
        except OSError:
            return False
        self.bytes_read += len(chunk)
        self._take(self._framer.feed(chunk))
        return bool(chunk)

    def read_all(self) -> None:
        """Read what is there now, even if it is still being written."""
        while self.read():
            pass
        self.close()

    def close(self) -> None:
        """Finish: nothing more will come."""
        self._take(self._framer.finish())
        self._fold.close()
        self.release()

    def release(self) -> None:
        """Close the file; the state stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def stderr(self) -> str:
        try:
            with (self.plan.run_dir / "stderr").open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 65_536))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _open(self) -> BinaryIO:
        """The file stays open: it may be compressed and removed once the run is settled."""
        if self._file is None:
            self._file = (self.plan.run_dir / "stdout").open("rb")
        return self._file

    def _take(self, lines: list[StreamLine]) -> None:
        for line in lines:
            for event in self._fold.feed(line):
                now = time.monotonic()
                self._note_asked(event)
                self.asked_at = now
                self.ended_at = now if isinstance(event, ev.End) else self.ended_at

    def _note_asked(self, event: ev.Event) -> None:
        if isinstance(event, ev.Question | ev.Permission):
            self.asked.append(event)
        elif isinstance(event, ev.ToolResult):  # other calls of the same reply may still wait
            self.asked = [each for each in self.asked if each.tool_id not in (None, event.id)]
        elif self.asked and isinstance(event, ev.Text | ev.TextDelta | ev.Thinking | ev.End):
            self.asked.clear()


class Pauses:
    """How long to wait before the next look at a growing file."""

    def __init__(self) -> None:
        self._grew_at, self._pause_s = time.monotonic(), PAUSE_S[0]

    def next_s(self, grew: bool) -> float:
        now = time.monotonic()
        if grew:
            self._grew_at, self._pause_s = now, PAUSE_S[0]
            return 0
        most_s = PAUSE_S[1] if now - self._grew_at < QUIET_S else QUIET_PAUSE_S
        self._pause_s = min(2 * self._pause_s, most_s)
        return self._pause_s


async def follow(store: Store, run: str, here: Observer) -> AsyncGenerator[ev.Event | Turn, None]:
    """The events of a run as they come, whichever process runs it; finally the turn, once it is settled.

    What is already in the stream comes at once. For a settled run only the turn is yielded: its events are in
    the store. A run whose process died is not settled before the next turn of the conversation; use
    ``liveness_of`` to avoid waiting for that.
    """
    pauses, look_at = Pauses(), 0.0
    with closing(_Streams(store, run, here)) as streams:
        while True:
            over = None
            if time.monotonic() >= look_at:
                row = await run_sync(streams.look)
                if row is None:
                    return
                over = row if status_of(row.state) is not None else None
                look_at = time.monotonic() + LOOK_S
            events = await run_sync(streams.read, over is not None)
            for event in events:
                yield event
            if over is not None:
                yield reported(over, here.key)
                return
            await anyio.sleep(pauses.next_s(bool(events)))


def reported(row: TurnRow, key: str) -> Turn:
    """The report of a settled turn, or one made from its row if there is none."""
    return row.told if row.told is not None else report_row(row, key)


class _Streams:
    """The streams of a run's attempts, if they can be read from here."""

    def __init__(self, store: Store, run: str, here: Observer) -> None:
        self._store, self._run, self._here = store, run, here
        self._events: list[ev.Event] = []
        self._open: dict[str, FollowedRun] = {}

    def look(self) -> TurnRow | None:
        """The run as it is stored now; streams of new attempts are opened."""
        row = self._store.turn(self._run)
        if row is None or not processes.is_near(row.owner, self._here.host):
            return row
        for attempt in self._store.attempts(self._run):
            plan = read_plan(Path(attempt.run_dir)) if attempt.id not in self._open else None
            agent = self._here.agent(plan.voice.agent) if plan is not None else None
            if plan is not None and agent is not None:
                redactor = self._here.redactor(plan, agent)
                self._open[attempt.id] = FollowedRun(plan, agent, redactor, self._events.append)
        return row

    def close(self) -> None:
        for stream in self._open.values():
            stream.release()

    def read(self, over: bool) -> list[ev.Event]:
        """What is new. ``over``: nothing more will come."""
        for stream in self._open.values():
            while stream.read():
                pass
            if over:
                stream.close()
        events = self._events[:]
        self._events.clear()
        return events
