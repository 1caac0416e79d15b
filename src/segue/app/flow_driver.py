"""Runs flows in this process, each in a task, to the end or to where they wait.

A flow that waits for a time is entered again then, as long as somebody waits for it here. The daemon enters
what it finds unfinished: flows that come with Segue. It never loads anybody else's code.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from segue.app.engine import Engine
from segue.app.flow_turns import FlowTurns
from segue.app.workspace import Workspace
from segue.core.errors import StoreAway
from segue.flows.definition import FlowDefinition
from segue.flows.entry import ENTERED, Surroundings, enter
from segue.flows.halt import Stop
from segue.store.flow_records import FlowRow

CLOSE_S = 30.0
"""How long closing waits for flows to be left."""
AWAY_S = 120.0
"""How long the store may be away before a flow is left."""
LONGEST_SLEEP_S = 1.0
"""The longest sleep of a flow that is parked: the clock may be changed, and somebody may stop it."""


class FlowDriver:
    """What this process runs. ``engine``: runs the turns."""

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._workspace, self._engine = workspace, engine
        self._tasks: dict[str, asyncio.Task[FlowRow]] = {}
        self._stops: dict[str, Stop] = {}
        self._around: Surroundings | None = None

    @property
    def running(self) -> list[str]:
        """The flows that this process runs now."""
        return list(self._tasks)

    async def start(self, definition: FlowDefinition, row: FlowRow) -> None:
        """Run the flow until it ends, needs somebody, or is stopped. At a limit, it is waited for."""
        known = self._tasks.get(row.id)
        if row.state not in ENTERED or (known is not None and not known.done()):
            return
        stop = self._stops[row.id] = Stop()
        task = asyncio.create_task(self._run(definition, row, stop), name=f"flow {row.id}")
        self._tasks[row.id] = task

        def ended(done: asyncio.Task[FlowRow]) -> None:
            if not done.cancelled():
                done.exception()  # whoever waits for it hears it
            if self._tasks.get(row.id) is done:
                del self._tasks[row.id], self._stops[row.id]

        task.add_done_callback(ended)

    async def join(self, flow_id: str) -> None:
        """Wait for a flow that this process runs. If the caller is cancelled, what runs is ended, and it
        is paused."""
        task, stop = self._tasks.get(flow_id), self._stops.get(flow_id)
        if task is None or stop is None:
            return
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            stop.ask("pause")
            stop.now()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
            raise

    def stop(self, flow_id: str) -> Stop | None:
        """What stops a flow that this process runs."""
        return self._stops.get(flow_id)

    def leave(self) -> None:
        """Start no further step of any flow. They stay as they are, for the next process."""
        for stop in self._stops.values():
            stop.ask("leave")

    async def close(self) -> None:
        """Wait until all flows have been left."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)

    async def _run(self, definition: FlowDefinition, row: FlowRow, stop: Stop) -> FlowRow:
        away_since: float | None = None
        while True:
            around = await run_sync(self.around)
            port = FlowTurns(self._workspace, self._engine, Path(row.cwd))
            try:
                row, away_since = await enter(definition, row.id, around, port, stop), None
            except StoreAway:  # it goes on where it was when the store is back
                away_since = away_since if away_since is not None else time.monotonic()
                if stop.kind is not None or time.monotonic() - away_since > AWAY_S:
                    raise
                await anyio.sleep(LONGEST_SLEEP_S)
                continue
            if row.state != "parked" or stop.kind is not None:
                return row
            await self._sleep(row, stop)

    def around(self) -> Surroundings:
        """Where flows run."""
        if self._around is None:
            at = self._workspace
            self._around = Surroundings(at.store, at.host, at.home.locks, at.child.secrets)
        return self._around

    async def _sleep(self, row: FlowRow, stop: Stop) -> None:
        """Until its time has come, or something about it has changed."""
        flows = self._workspace.store.flows
        while row.state == "parked" and row.asked is None and stop.kind is None:
            left_s = ((row.wake_ms or 0) - await run_sync(flows.clock_ms)) / 1000
            if left_s <= 0:
                return
            await anyio.sleep(min(left_s, LONGEST_SLEEP_S))
            now = await run_sync(flows.flow, row.id)
            row = now if now is not None else row
