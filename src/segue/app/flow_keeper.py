"""Continues the flows that no process runs: what a killed process left, what was answered, what has woken.

Only the daemon has one. It runs flows that come with Segue, of its own host. The code of others is somewhere
in the user's files: the daemon never loads it, and leaves these flows to ``segue flow resume``.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import msgspec
from anyio.to_thread import run_sync

from segue.app.flow_driver import FlowDriver
from segue.app.flow_report import is_held
from segue.app.store_changes import StoreChanges
from segue.app.workspace import Workspace
from segue.core.errors import NotFound, SegueError
from segue.flows.definition import built_in
from segue.flows.entry import flow_lease, held
from segue.flows.halt import Stop
from segue.store.flow_records import FlowRow

LOOK_S = 0.25
"""The shortest time between two looks."""
WATCH_S = 2.0
"""How often to look whether the processes live that run flows beside this one, and after a failed try."""
FAR_S = 60.0
"""The longest sleep while flows are parked: the system's clock may be changed."""


class FlowKeeper:
    """``start`` it, and ``stop`` it at the end."""

    def __init__(self, workspace: Workspace, driver: FlowDriver, changes: StoreChanges) -> None:
        self._workspace, self._driver, self._changes = workspace, driver, changes
        self._task: asyncio.Task[None] | None = None
        self._tried: dict[str, float] = {}

    async def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name="flows")

    def stop(self) -> None:
        """Enter no further flow."""
        if self._task is not None:
            self._task.cancel()

    async def _keep(self) -> None:
        changed = self._changes.open()
        try:
            while True:
                changed.clear()
                pause_s: float | None = WATCH_S
                with suppress(SegueError):  # the store may be away
                    pause_s = await self._look()
                await asyncio.sleep(LOOK_S)
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), pause_s)
        finally:
            self._changes.close(changed)

    async def _look(self) -> float | None:
        """Enter what can be entered. Returns when to look again, at the latest; None: when something has
        changed."""
        rows = await run_sync(self._left)
        pauses = [await self._continue(row) for row in rows]
        return min(pauses, default=None)

    def _left(self) -> list[FlowRow]:
        """The flows that are this daemon's to run, and that it does not run."""
        host, ours = self._workspace.host.name, set(self._driver.running)
        return [
            row
            for row in self._workspace.store.flows.unfinished()
            if row.state in ("running", "parked")
            and row.source is None
            and row.host == host
            and row.id not in ours
        ]

    async def _continue(self, row: FlowRow) -> float:
        """Enter a flow, if its time has come and nobody else runs it. Returns when to look again."""
        now_ms = await run_sync(self._workspace.store.flows.clock_ms)
        if row.wake_ms is not None and row.wake_ms > now_ms:
            return min((row.wake_ms - now_ms) / 1000, FAR_S)
        if await run_sync(is_held, self._workspace, row.id):
            return WATCH_S
        if time.monotonic() - self._tried.get(row.id, -FAR_S) < WATCH_S:
            return WATCH_S
        self._tried[row.id] = time.monotonic()
        try:
            await self._driver.start(built_in(row.kind, row.version), row)
        except NotFound:
            await self._ask_for_version(row)
        return WATCH_S

    async def _ask_for_version(self, row: FlowRow) -> None:
        """This Segue has no code for the version that the flow began with."""
        around = await run_sync(self._driver.around)
        why = f"this Segue has no version {row.version} of the flow {row.kind}; to go on with its newest one,"
        failure = f"{why} choose a step to go on from: segue flow resume {row.id} --from STEP"
        async with held(around, flow_lease(row.id), Stop(), 0, "it runs") as lease:
            changed = msgspec.structs.replace(row, state="needs_you", needs="version", failure=failure)
            await run_sync(self._workspace.store.flows.change, lease.claim, changed)
