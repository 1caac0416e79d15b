"""What runs queued turns for a ``Segue``: the engine and the subscriptions, which know each other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from segue.app.change_call import AnyAnswer, ChangeCall, answers_to
from segue.app.engine import Engine
from segue.app.foreground import ForegroundCall, run_foreground
from segue.app.frames import Tell
from segue.app.run_shapes import RunShown
from segue.app.runs import show_run
from segue.app.store_changes import StoreChanges
from segue.app.subscriptions import Subscriptions
from segue.app.workspace import Workspace

if TYPE_CHECKING:
    from segue.app.flow_driver import FlowDriver
    from segue.app.flow_keeper import FlowKeeper
    from segue.app.flow_shapes import FlowShown


class RunService:
    """Made when it is first needed; a daemon starts it at once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        changes = self._changes = StoreChanges(workspace.store)
        self.subscriptions = Subscriptions(workspace, lambda run: run in self.engine.running, changes)
        self.engine = Engine(workspace, self.subscriptions.watch, changes)
        self._flows: FlowDriver | None = None
        self._keeper: FlowKeeper | None = None

    @property
    def flows(self) -> FlowDriver:
        """What runs flows in this process."""
        if self._flows is None:
            from segue.app.flow_driver import FlowDriver

            self._flows = FlowDriver(self._workspace, self.engine)
        return self._flows

    async def start(self) -> None:
        """Adopt what a killed process left running, and continue all queues and flows."""
        from segue.app.flow_keeper import FlowKeeper

        await self.engine.start()
        self._keeper = FlowKeeper(self._workspace, self.flows, self._changes)
        await self._keeper.start()

    def runs(self) -> dict[str, int]:
        """How many runs and flows this process runs, and how many wait for it."""
        flows = len(self._flows.running) if self._flows is not None else 0
        counts = {"running": len(self.engine.running), "waiting": self.engine.waiting, "flows": flows}
        return {state: count for state, count in counts.items() if count}

    async def end(self, limit_s: float) -> None:
        """Start nothing more, and wait until what runs has ended; the rest is left to the next process."""
        self._leave_flows()
        await self.engine.drain(limit_s)
        if self._flows is not None:
            await self._flows.close()

    def watch_flow(self, name: str, idle_s: float | None = None) -> AsyncGenerator[FlowShown | None]:
        """A flow as it is now, and again whenever something about it has changed, until it is over. None: it
        has not changed for this many seconds."""
        from segue.app.flow_watch import watched

        return watched(self._workspace, self._changes, name, idle_s)

    def _leave_flows(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        if self._flows is not None:
            self._flows.leave()

    async def drain(self, key: str, told: Callable[[RunShown], None]) -> None:
        """Run what waits in a conversation now, one after the other, without a daemon. ``told``: is called
        with each run that has ended."""
        conversation = await run_sync(self._workspace.conversation, key)
        await self.engine.drain_line(conversation.id, lambda run: told(show_run(self._workspace, run)))

    async def foreground(self, call: ForegroundCall, tell: Tell) -> None:
        """Run a turn for a command line that waits for it."""
        await run_foreground(self._workspace, self.engine, call, tell)

    def change(self, call: ChangeCall) -> AsyncGenerator[AnyAnswer]:
        """Make a change for a command line, telling what comes of it."""
        return answers_to(self._workspace.store, call)

    async def close(self) -> None:
        """Cancel what this process runs; what waits stays in the queue."""
        self.subscriptions.close()
        self._leave_flows()
        await self.engine.close()
        if self._flows is not None:
            await self._flows.close()
