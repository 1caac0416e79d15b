"""The engine: runs turns for callers that do not wait for them, in the order of each conversation's line.

A run is stored before anything else, with everything it needs to start. So a run outlives the process that
accepted it: the next engine on the same store adopts what was running and continues each line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from anyio.to_thread import run_sync

from segue.app.driven_run import DrivenRun, Watcher
from segue.app.lines import Lines
from segue.app.ready_turn import Listener, NoticeListener, ReadyTurn
from segue.app.runs import cancel_run
from segue.app.store_changes import StoreChanges
from segue.app.workspace import Workspace
from segue.core.errors import Conflict, SegueError
from segue.core.turn import Turn
from segue.runner.attempt import Cancel
from segue.store.records import BEGUN, QUEUED, KnownRun, QueuedRow, TurnRow
from segue.system.processes import this_process
from segue.turns.changes import forked_if_busy
from segue.turns.liveness import lost_runs
from segue.turns.message import enqueue
from segue.turns.prepare import Prepared
from segue.turns.questions import elsewhere
from segue.turns.queued_run import waits_for_answer, waits_for_user

AWAY_PAUSE_S = 1.0
"""The pause before the queue is looked at again while the store is away."""
LOOK_S = 0.25
"""The shortest time between two looks at the queue."""
WATCH_S = 1.0
"""How often to check whether the processes live that run something beside this one."""
CLOSE_S = 30.0
"""How long closing waits for cancelled runs to end."""


class Engine:
    """Create it inside an event loop, ``start`` it, and ``drain`` it at the end."""

    def __init__(
        self, workspace: Workspace, watch: Watcher | None = None, changes: StoreChanges | None = None
    ) -> None:
        self._changes = changes or StoreChanges(workspace.store)
        self.workspace, self._watch = workspace, watch or (lambda run, event: None)
        self._running: dict[str, Cancel] = {}
        self._lines = Lines(workspace, self._running, self._watch)
        self._waited: dict[asyncio.Task[Turn], DrivenRun] = {}
        """Runs that somebody waits for."""
        self.waiting = 0
        """How many runs waited when the queue was last looked at."""
        self._driven: set[str] = set()
        self._others = False
        """Whether other processes of this host run something."""
        self._poked: set[tuple[str, str]] = set()
        """The lost runs, and their conversations, whose lines were told so."""
        self._draining = False
        self._looker: asyncio.Task[None] | None = None

    @property
    def running(self) -> list[str]:
        """The runs that this engine runs now."""
        return list(self._running)

    async def start(self) -> None:
        """Adopt what a killed process left running, and continue every line."""
        lost = await run_sync(self._lost)
        await self._lines.settle(lost)
        for row in lost:
            self._lines.poke(row.conversation)
        await self._try_again(await run_sync(self.workspace.store.line))
        self._looker = asyncio.create_task(self._look(), name="queue")

    async def submit(
        self,
        prepared: Prepared,
        *,
        retry_message: str | None = None,
        not_before_ms: int | None = None,
        env: Mapping[str, str] | None = None,
        body: str | None = None,
    ) -> str:
        """Store a run, and return its id at once. The same key again returns the same run.

        ``env``: the environment that the agent gets; it is never stored, and lost if this process dies.
        ``body``: the digest of what was ordered under its key.
        """
        store = self.workspace.store
        if prepared.ask.fork:
            prepared, retry_message = await run_sync(
                forked_if_busy, prepared, store, lambda _: None, retry_message
            )
        try:
            row = await run_sync(enqueue, prepared, store, retry_message, not_before_ms, None, body)
        except KnownRun as known:
            return known.run
        if env is not None:
            self._lines.give_environment(row.id, env)
        self._lines.poke(row.conversation)
        return row.id

    async def run(
        self, ready: ReadyTurn, *, on_event: Listener | None = None, on_notice: NoticeListener | None = None
    ) -> Turn:
        """Run a turn that somebody waits for. It goes on if nobody does any more."""
        driven = DrivenRun(ready.prepared.run, self._running, self._watch, on_event)

        async def take() -> Turn:
            with driven:
                return await ready.run(
                    on_event=driven.heard,
                    on_notice=on_notice,
                    answer=elsewhere if ready.answers else None,
                    cancel=driven.cancel,
                    on_run=driven.retried_as,
                )

        task = asyncio.create_task(take(), name=f"run {driven.run}")
        self._waited[task] = driven
        task.add_done_callback(lambda _: self._waited.pop(task))
        return await asyncio.shield(task)

    async def accept(self, run: str) -> None:
        """Run what was put into the queue."""
        queued = await run_sync(self.workspace.store.queued, run)
        if queued is not None:
            self._lines.poke(queued.conversation)

    async def cancel(self, row: TurnRow) -> bool:
        """End a run: one that waits is withdrawn, one that runs is ended by its process. False: it is over.

        A second call kills it.
        """
        asked = await run_sync(cancel_run, self.workspace, row.id)
        if (cancel := self._running.get(row.id)) is not None:
            cancel()
        self._lines.poke(row.conversation)  # its process may be gone, and its agent still at work
        return asked

    async def wake(self, queued: QueuedRow) -> bool:
        """Start a parked run now; if a failed run holds up its line, the line goes on. False: neither.

        ``Conflict``: another run comes before it."""
        store = self.workspace.store
        gone_on = queued.held_by is not None and await run_sync(store.let_go, queued.conversation)
        if not gone_on and not waits_for_user(queued):
            first = (await run_sync(store.line, queued.conversation))[:1]
            if first and first[0].id != queued.id:
                raise Conflict(
                    f"the run {first[0].id} comes before it; move it to the first place, then try again"
                )
        woken = await run_sync(store.wake, queued)
        self._lines.poke(queued.conversation)
        return woken or gone_on

    async def drain(self, limit_s: float) -> None:
        """Start nothing more, and wait until what runs has ended. What still runs then is left to the next
        engine: call this only if the process ends."""
        self._draining = True
        await self._let_wait()
        self._lines.stop()
        if self._looker is not None:
            self._looker.cancel()
        tasks = (*self._lines.tasks, *self._waited)
        busy = [task for task in tasks if not task.done()]
        if busy:
            await asyncio.wait(busy, timeout=limit_s)

    async def close(self) -> None:
        """Cancel what this process runs, and wait for it. What waits stays in the queue."""
        self._draining = True
        await self._let_wait()
        for cancel in list(self._running.values()):
            cancel()
        await self.drain(CLOSE_S)

    async def drain_line(self, conversation: str, told: Callable[[str], None]) -> None:
        """Run what waits in one conversation, as ``Lines.finish``."""
        await self._try_again(await run_sync(self.workspace.store.line, conversation))
        await self._lines.finish(conversation, told)

    async def _try_again(self, line: Sequence[QueuedRow]) -> None:
        """Try again to start what waits for the user: what was missing may be here now."""
        for row in line:
            if not waits_for_user(row) or row.host != self.workspace.host.name:
                continue
            if not await run_sync(waits_for_answer, self.workspace.store, row):
                await run_sync(self.workspace.store.wake, row)

    async def _let_wait(self) -> None:
        """Queued runs that wait for another turn stay in the queue, for the next engine; parked ones, too."""
        for task, driven in list(self._waited.items()):
            row = await run_sync(self.workspace.store.turn, driven.run)
            if row is not None and row.state == "parked":
                task.cancel()
        for run in list(self._running):
            row = await run_sync(self.workspace.store.turn, run)
            if row is not None and row.via == QUEUED and row.state not in BEGUN:
                await self._lines.leave(row.conversation)

    async def _look(self) -> None:
        """Look for runs that other processes have queued, whenever the store has changed."""
        seen, changed = -1, self._changes.open()
        try:
            while not self._draining:
                changed.clear()
                try:
                    seen = await self._look_after(seen)
                except SegueError:  # the store may be away
                    changed.set()
                    await asyncio.sleep(AWAY_PAUSE_S)
                await asyncio.sleep(LOOK_S)
                await self._change(changed)
        finally:
            self._changes.close(changed)

    async def _change(self, changed: asyncio.Event) -> None:
        """Wait until the store has changed. While other processes run something, look whether they live."""
        while not changed.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), WATCH_S if self._others else None)
            if not changed.is_set():
                with suppress(SegueError):  # the store may be away
                    await self._look_after_others()

    async def _look_after_others(self) -> None:
        """Continue the line of each run whose process is gone: once, whatever comes of it."""
        lost = {(row.id, row.conversation) for row in await run_sync(self._lost)}
        for run, conversation in lost - self._poked:
            self._driven.discard(run)
            self._lines.poke(conversation)
        self._poked = lost

    def _lost(self) -> Sequence[TurnRow]:
        """The runs of this host whose process is gone. Also finds out whether other processes run any."""
        store, host = self.workspace.store, self.workspace.host
        begun = [row for row in store.begun() if row.host == host.name and row.id not in self._running]
        self._others = bool(begun)
        found = {row.conversation for row in begun}
        return [row for each in found for row in lost_runs(store, each, host) if row.id not in self._running]

    async def _look_after(self, seen: int) -> int:
        """Look at the queue if anything was written after that number. Returns the newest one."""
        store = self.workspace.store
        _, newest = await run_sync(store.feed_bounds)
        if newest != seen:
            line = await run_sync(self._drive_all)
            self.waiting = len(line)
            for conversation in {row.conversation for row in line}:
                self._lines.poke(conversation)
            await self._look_after_others()
        return newest

    def _drive_all(self) -> Sequence[QueuedRow]:
        """What waits for this host; others are shown that somebody runs it."""
        store, line = self.workspace.store, self.workspace.store.line()
        if line:
            owner = this_process(self.workspace.host)
            line = [row for row in line if row.host == owner.host]
            for row in line:
                if row.id not in self._driven and store.drive(row.id, owner):
                    self._driven.add(row.id)
        self._driven &= {row.id for row in line}
        return line
