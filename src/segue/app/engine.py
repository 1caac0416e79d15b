"""The engine: runs turns for callers that do not wait for them, in the order of each conversation's line.

A run is stored before anything else, with everything it needs to start. So a run outlives the process that
accepted it: the next engine on the same store adopts what was running and continues each line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from anyio.to_thread import run_sync

from segue.app.driven_run import DrivenRun, Watcher
from segue.app.questions import Questions
from segue.app.ready_turn import Listener, NoticeListener, ReadyTurn
from segue.app.runs import cancel_run, observing
from segue.app.store_changes import StoreChanges
from segue.app.workspace import Workspace
from segue.core.errors import SegueError, StoreAway
from segue.core.outcome import Failure
from segue.core.turn import Turn, status_of
from segue.runner.attempt import Cancel, Guarded, Replies
from segue.store.records import BEGUN, QUEUED, KnownRun, QueuedRow, TurnRow
from segue.store.waiting_turn import shows_waiting
from segue.system.processes import this_process
from segue.turns import turn as turns
from segue.turns.changes import forked_if_busy
from segue.turns.known_run import known_run
from segue.turns.live_turn import Callbacks
from segue.turns.liveness import liveness_of
from segue.turns.message import enqueue
from segue.turns.parked_run import left_s_of
from segue.turns.prepare import Prepared
from segue.turns.queued_run import reopen, take_out
from segue.turns.request import TurnRequest

ADOPT_S = 24 * 3600.0
"""How long an adopted run is followed."""
AWAY_PAUSE_S = 1.0
"""The pause before a line is tried again while the store is away."""
LOOK_S = 0.25
"""The shortest time between two looks at the queue."""
CLOSE_S = 30.0
"""How long closing waits for cancelled runs to end."""
FAR_S = 60.0
"""The longest sleep of a line whose first run is parked: the system's clock may be changed."""


class Engine:
    """Create it inside an event loop, ``start`` it, and ``drain`` it at the end."""

    def __init__(
        self, workspace: Workspace, watch: Watcher | None = None, changes: StoreChanges | None = None
    ) -> None:
        self._changes = changes or StoreChanges(workspace.store)
        self.workspace, self._watch = workspace, watch or (lambda run, event: None)
        self.questions = Questions(workspace.store)
        self._lines: dict[str, asyncio.Task[None]] = {}
        self._woken: dict[str, asyncio.Event] = {}
        self._running: dict[str, Cancel] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        """Runs that were adopted."""
        self._waited: dict[asyncio.Task[Turn], DrivenRun] = {}
        """Runs that somebody waits for."""
        self._environments: dict[str, Mapping[str, str]] = {}
        self.waiting = 0
        """How many runs waited when the queue was last looked at."""
        self._driven: set[str] = set()
        self._draining = False
        self._looker: asyncio.Task[None] | None = None

    @property
    def running(self) -> list[str]:
        """The runs that this engine runs now."""
        return list(self._running)

    async def start(self) -> None:
        """Adopt what a killed process left running, and continue every line."""
        store = self.workspace.store
        for row in await run_sync(store.begun):
            self._adopt_soon(row.id)
        self._looker = asyncio.create_task(self._look(), name="queue")

    async def submit(
        self,
        prepared: Prepared,
        *,
        retry_message: str | None = None,
        not_before_ms: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Store a run, and return its id at once. The same key again returns the same run.

        ``env``: the environment that the agent gets; it is never stored, and lost if this process dies.
        """
        store = self.workspace.store
        if prepared.ask.fork:
            prepared, retry_message = await run_sync(
                forked_if_busy, prepared, store, lambda _: None, retry_message
            )
        try:
            row = await run_sync(enqueue, prepared, store, retry_message, not_before_ms)
        except KnownRun as known:
            return known.run
        if env is not None:
            self._environments[row.id] = env
        self._poke(row.conversation)
        return row.id

    async def run(
        self, ready: ReadyTurn, *, on_event: Listener | None = None, on_notice: NoticeListener | None = None
    ) -> Turn:
        """Run a turn that somebody waits for. It goes on if nobody does any more."""
        driven = DrivenRun(ready.prepared.run, self._running, self.questions, self._watch, on_event)

        async def take() -> Turn:
            with driven:
                return await ready.run(
                    on_event=driven.heard,
                    on_notice=on_notice,
                    answer=driven.ask if ready.answers else None,
                    cancel=driven.cancel,
                    on_run=driven.retried_as,
                )

        task = asyncio.create_task(take(), name=f"run {driven.run}")
        self._waited[task] = driven
        task.add_done_callback(lambda _: self._waited.pop(task))
        return await asyncio.shield(task)

    async def cancel(self, row: TurnRow) -> bool:
        """End a run: one that waits is withdrawn, one that runs is ended by its process. False: it is over.

        A second call kills it.
        """
        asked = await run_sync(cancel_run, self.workspace, row.id)
        if (cancel := self._running.get(row.id)) is not None:
            cancel()
        elif asked:  # its process may be gone, and its agent still at work
            self._adopt_soon(row.id)
        self._poke(row.conversation)
        return asked

    async def wake(self, queued: QueuedRow) -> bool:
        """Start a parked run now; if a failed run holds up its line, the line goes on. False: neither."""
        gone_on = queued.held_by is not None and await run_sync(
            self.workspace.store.let_go, queued.conversation
        )
        woken = await run_sync(self.workspace.store.wake, queued)
        self._poke(queued.conversation)
        return woken or gone_on

    async def drain(self, limit_s: float) -> None:
        """Start nothing more, and wait until what runs has ended. What still runs then is left to the next
        engine: call this only if the process ends."""
        self._draining = True
        await self._let_wait()
        for woken in self._woken.values():
            woken.set()
        if self._looker is not None:
            self._looker.cancel()
        tasks = (*self._lines.values(), *self._tasks, *self._waited)
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

    async def _let_wait(self) -> None:
        """Queued runs that wait for another turn stay in the queue, for the next engine; parked ones, too."""
        for task, driven in list(self._waited.items()):
            row = await run_sync(self.workspace.store.turn, driven.run)
            if row is not None and row.state == "parked":
                task.cancel()
        for run in list(self._running):
            row = await run_sync(self.workspace.store.turn, run)
            line = self._lines.get(row.conversation) if row is not None else None
            if row is not None and row.via == QUEUED and row.state not in BEGUN and line is not None:
                line.cancel()
                await asyncio.wait([line])

    async def drain_line(self, conversation: str, told: Callable[[str], None]) -> None:
        """Run what waits in one conversation, until nothing is left or a failure holds up the rest.

        ``told``: is called with each run that this process has run to its end."""
        await run_sync(self.workspace.store.let_go, conversation)
        line = self._lines[conversation] = asyncio.create_task(self._drain_line(conversation, told))
        await line

    async def _drain_line(self, conversation: str, told: Callable[[str], None]) -> None:
        woken = self._woken.setdefault(conversation, asyncio.Event())
        while not self._draining:
            woken.clear()
            line = await run_sync(self.workspace.store.line, conversation)
            if not line or line[0].held_by is not None or line[0].host != self.workspace.host.name:
                return
            if await self._next(line[0], woken):
                told(line[0].id)

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
                await changed.wait()
        finally:
            self._changes.close(changed)

    async def _look_after(self, seen: int) -> int:
        """Look at the queue if anything was written after that number. Returns the newest one."""
        store = self.workspace.store
        _, newest = await run_sync(store.feed_bounds)
        if newest != seen:
            line = await run_sync(self._drive_all)
            self.waiting = len(line)
            for conversation in {row.conversation for row in line}:
                self._poke(conversation)
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

    def _poke(self, conversation: str) -> None:
        """Look at the line of a conversation: something in it has changed."""
        self._woken.setdefault(conversation, asyncio.Event()).set()
        task = self._lines.get(conversation)
        if not self._draining and (task is None or task.done()):
            self._lines[conversation] = asyncio.create_task(
                self._drive(conversation), name=f"line {conversation}"
            )

    async def _drive(self, conversation: str) -> None:
        """Run what waits, one after the other, until nothing is left."""
        woken = self._woken[conversation]
        while not self._draining:
            woken.clear()
            try:
                line = await run_sync(self.workspace.store.line, conversation)
                if line and line[0].host == self.workspace.host.name:
                    await self._next(line[0], woken)
                elif not woken.is_set():  # nothing is left, or another host comes next
                    self._woken.pop(conversation, None)
                    self._lines.pop(conversation, None)
                    return
            except StoreAway:
                await asyncio.sleep(AWAY_PAUSE_S)

    async def _next(self, first: QueuedRow, woken: asyncio.Event) -> bool:
        """Run it, if its time has come. Returns whether it did."""
        if first.held_by is not None:
            await _pause(woken, FAR_S)
        elif first.id in self._running or await run_sync(
            shows_waiting, self.workspace.store, first.id, self.workspace.host
        ):  # a process waits for it at a limit, and continues it itself
            await _pause(woken, LOOK_S)
        elif first.state == "parked":
            await self._sleep(first, woken)
        else:
            return await self._run(first)
        return False

    async def _sleep(self, parked: QueuedRow, woken: asyncio.Event) -> None:
        left_s = await run_sync(left_s_of, self.workspace.store, parked, self.workspace.host)
        if left_s > 0:
            await _pause(woken, min(left_s, FAR_S))
        else:
            await run_sync(self.workspace.store.wake, parked)

    async def _run(self, queued: QueuedRow) -> bool:
        """Run it to its end. False: it is parked, or another process has begun it."""
        store, driven = self.workspace.store, DrivenRun(queued.id, self._running, self.questions, self._watch)
        env = self._environments.get(queued.id, self.workspace.env)
        try:
            ready = await run_sync(reopen, store, queued, env)
        except StoreAway:
            raise  # it waits on
        except (SegueError, OSError) as error:
            await self._refuse(queued, Failure("crashed", str(error)))
            return True
        try:
            with driven:
                turn = await turns.run(
                    ready.prepared,
                    store,
                    on_event=driven.heard,
                    answer=driven.ask if _may_be_asked(ready.prepared.ask) else None,
                    cancel=driven.cancel,
                    retry_message=ready.retry,
                    accepted=ready.row,
                    on_run=driven.retried_as,
                )
            if turn.state != "parked":
                self._environments.pop(queued.id, None)
            return status_of(turn.state) is not None
        except StoreAway:
            raise
        except (SegueError, OSError) as error:
            await self._refuse(queued, Failure("crashed", str(error)))
            return True

    async def _refuse(self, queued: QueuedRow, failure: Failure) -> None:
        """It cannot be started: it is withdrawn, with the reason."""
        store = self.workspace.store
        self._environments.pop(queued.id, None)
        row, key = await run_sync(store.turn, queued.id), _key_of(self.workspace, queued.conversation)
        hold = self.workspace.config.queue.on_failure == "hold"
        if row is not None:
            await run_sync(partial(take_out, store, row, key, failure, hold=hold))

    def _adopt_soon(self, run: str) -> None:
        task = asyncio.create_task(self._adopt(run), name=f"adopt {run}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _adopt(self, run: str) -> None:
        """Follow a run that another process began to its end; settle it if that process is gone."""
        store = self.workspace.store
        row = await run_sync(store.turn, run)
        if row is None or row.state not in BEGUN or row.host != self.workspace.host.name:
            return
        if await run_sync(liveness_of, store, row, self.workspace.host) == "alive":
            return  # somebody drives it
        if row.id in self._running:
            return
        driven = DrivenRun(row.id, self._running, self.questions, self._watch)
        callbacks = Callbacks(driven.heard, Replies(None), driven.cancel, Guarded("on_notice", None))
        with driven, suppress(SegueError, OSError):  # otherwise the next run of the conversation settles it
            prepared = await run_sync(observing, self.workspace, row)
            await known_run(prepared, store, row.id, callbacks, ADOPT_S)
        self._poke(row.conversation)


async def _pause(woken: asyncio.Event, longest_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(woken.wait(), longest_s)


def _may_be_asked(ask: TurnRequest) -> bool:
    """Whether somebody is expected to answer the agent. Otherwise it is told at once that nobody does."""
    return ask.answers or ask.questions == "on"


def _key_of(workspace: Workspace, conversation: str) -> str:
    found = workspace.store.conversation_by_id(conversation)
    return found.key if found is not None else ""
