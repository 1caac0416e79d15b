"""What runs queued turns for a ``Segue``: the engine and the subscriptions, which know each other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

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


class RunService:
    """Made when it is first needed; a daemon starts it at once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        changes = StoreChanges(workspace.store)
        self.subscriptions = Subscriptions(workspace, lambda run: run in self.engine.running, changes)
        self.engine = Engine(workspace, self.subscriptions.watch, changes)

    async def start(self) -> None:
        """Adopt what a killed process left running, and continue all queues."""
        await self.engine.start()

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
        await self.engine.close()
