"""The lines of runs that wait, one for each conversation: each run is started when its turn has come.

A line stops at a run of another host, at one that waits for the user, and behind one whose failure holds up
the rest. A parked run lets nothing past it until its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from anyio.to_thread import run_sync

from segue.app.driven_run import DrivenRun, Watcher
from segue.app.ready_turn import failover
from segue.app.runs import observing
from segue.app.workspace import Workspace
from segue.core.errors import SegueError, StoreAway
from segue.core.outcome import Failure
from segue.core.turn import status_of
from segue.runner.attempt import Cancel, Guarded, Replies
from segue.store.records import QueuedRow, TurnRow
from segue.store.waiting_turn import shows_waiting
from segue.turns import turn as turns
from segue.turns.known_run import settle_run
from segue.turns.live_turn import Callbacks
from segue.turns.liveness import liveness_of, lost_runs
from segue.turns.parked_run import left_s_of
from segue.turns.questions import elsewhere, never_began
from segue.turns.queued_run import ask_for_variables, reopen, take_out, waits_for_user
from segue.turns.request import TurnRequest

ADOPT_S = 24 * 3600.0
"""How long an adopted run is followed."""
SETTLE_S = 10.0
"""How long the start waits until what killed processes have left is settled."""
AWAY_PAUSE_S = 1.0
"""The pause before a line is tried again while the store is away."""
LOOK_S = 0.25
"""The shortest time between two looks at a run that another process waits for."""
FAR_S = 60.0
"""The longest sleep of a line whose first run is parked: the system's clock may be changed."""


class Lines:
    """``running``: what runs now, each with what cancels it."""

    def __init__(self, workspace: Workspace, running: dict[str, Cancel], watch: Watcher) -> None:
        self._workspace, self._running, self._watch = workspace, running, watch
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._woken: dict[str, asyncio.Event] = {}
        self._environments: dict[str, Mapping[str, str]] = {}
        self._stopped = False

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """What works on the lines now."""
        return list(self._tasks.values())

    def give_environment(self, run: str, env: Mapping[str, str]) -> None:
        """What the agent of a run gets instead of this process's environment."""
        self._environments[run] = env

    def poke(self, conversation: str) -> None:
        """Look at the line of a conversation: something in it has changed."""
        self._woken.setdefault(conversation, asyncio.Event()).set()
        task = self._tasks.get(conversation)
        if not self._stopped and (task is None or task.done()):
            self._tasks[conversation] = asyncio.create_task(
                self._drive(conversation), name=f"line {conversation}"
            )

    async def settle(self, lost: Sequence[TurnRow]) -> None:
        """Settle runs whose process is gone, or put them back in line, before anything else is driven. Those
        whose agents still work take longer: they are left to their lines."""
        store, host = self._workspace.store, self._workspace.host
        tasks = [
            asyncio.create_task(self._adopt(row), name=f"adopt {row.id}")
            for row in lost
            if await run_sync(liveness_of, store, row, host) == "dead"
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=SETTLE_S)

    async def finish(self, conversation: str, told: Callable[[str], None]) -> None:
        """Run what waits in one conversation, until nothing is left or a failure holds up the rest.

        ``told``: is called with each run that this process has run to its end."""
        await run_sync(self._workspace.store.let_go, conversation)
        task = self._tasks[conversation] = asyncio.create_task(self._finish(conversation, told))
        await task

    def stop(self) -> None:
        """Start nothing more."""
        self._stopped = True
        for woken in self._woken.values():
            woken.set()

    async def leave(self, conversation: str) -> None:
        """Leave the line of a conversation as it is."""
        if (task := self._tasks.get(conversation)) is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _finish(self, conversation: str, told: Callable[[str], None]) -> None:
        woken = self._woken.setdefault(conversation, asyncio.Event())
        while not self._stopped:
            woken.clear()
            line = await self._line(conversation)
            if not self._may_start(line) or line[0].held_by is not None:
                return
            if await self._next(line[0], woken):
                told(line[0].id)

    async def _drive(self, conversation: str) -> None:
        """Run what waits, one after the other, until nothing is left."""
        woken = self._woken[conversation]
        while not self._stopped:
            woken.clear()
            try:
                line = await self._line(conversation)
                if self._may_start(line):
                    await self._next(line[0], woken)
                elif not woken.is_set():  # nothing is left, or another host or the user comes next
                    self._woken.pop(conversation, None)
                    self._tasks.pop(conversation, None)
                    return
            except StoreAway:
                await asyncio.sleep(AWAY_PAUSE_S)

    async def _line(self, conversation: str) -> Sequence[QueuedRow]:
        """The runs that wait. First, those are settled that a killed process had begun; one that had not got
        as far as an attempt waits again."""
        store = self._workspace.store
        for row in await run_sync(lost_runs, store, conversation, self._workspace.host):
            if row.id not in self._running and not self._stopped:
                await self._adopt(row)
        return await run_sync(store.line, conversation)

    async def _adopt(self, row: TurnRow) -> None:
        """Follow a run that another process began to its end, and settle it."""
        driven = DrivenRun(row.id, self._running, self._watch)
        callbacks = Callbacks(driven.heard, Replies(None), driven.cancel, Guarded("on_notice", None))
        with driven, suppress(SegueError, OSError):  # otherwise the next run of the conversation settles it
            prepared = await run_sync(observing, self._workspace, row)
            await settle_run(prepared, self._workspace.store, row.id, callbacks, ADOPT_S)

    def _may_start(self, line: Sequence[QueuedRow]) -> bool:
        return bool(line) and line[0].host == self._workspace.host.name and not waits_for_user(line[0])

    async def _next(self, first: QueuedRow, woken: asyncio.Event) -> bool:
        """Run it, if its time has come. Returns whether it did."""
        store, host = self._workspace.store, self._workspace.host
        if first.held_by is not None:
            await _pause(woken, FAR_S)
        elif first.id in self._running or await run_sync(shows_waiting, store, first.id, host):
            await _pause(woken, LOOK_S)  # a process waits for it at a limit, and continues it itself
        elif (asked_s := await run_sync(self._asked_s, first)) > 0:
            await _pause(woken, min(asked_s, FAR_S))
        elif first.state == "parked":
            left_s = await run_sync(left_s_of, store, first, host)
            if left_s > 0:
                await _pause(woken, min(left_s, FAR_S))
            else:
                await run_sync(store.wake, first)
        else:
            return await self._run(first)
        return False

    def _asked_s(self, first: QueuedRow) -> float:
        """How long the line waits for the answer to a question of an earlier run, which would come first."""
        store, limit_s = self._workspace.store, self._workspace.config.defaults.question_timeout
        if store.carried(first.id):
            return 0
        asked = [
            each.asked_ms
            for each in store.asked(first.conversation)
            if each.run != first.id and not never_began(each)
        ]
        return (max(asked) - store.clock_ms()) / 1000 + limit_s if asked else 0

    async def _run(self, queued: QueuedRow) -> bool:
        """Run it to its end. False: it waits on, or another process has begun it."""
        store = self._workspace.store
        env = self._environments.get(queued.id, self._workspace.env)
        try:
            ready = await run_sync(reopen, store, queued, env, self._workspace.transport)
            if ready.missing:
                await run_sync(ask_for_variables, store, queued, ready.missing)
                return False
            driven = DrivenRun(queued.id, self._running, self._watch)

            def retried_as(run: str) -> None:
                if (given := self._environments.pop(driven.run, None)) is not None:
                    self._environments[run] = given
                driven.retried_as(run)

            with driven:
                turn = await turns.run(
                    ready.prepared,
                    store,
                    on_event=driven.heard,
                    answer=elsewhere if _may_be_asked(ready.prepared.ask) else None,
                    cancel=driven.cancel,
                    retry_message=ready.retry,
                    accepted=ready.row,
                    on_run=retried_as,
                    failover=partial(failover, self._workspace),
                )
        except StoreAway:
            raise  # it waits on
        except (SegueError, OSError) as error:
            await self._refuse(queued, turns.failure_of(error))
            return True
        if status_of(turn.state) is not None:
            self._environments.pop(driven.run, None)
        return status_of(turn.state) is not None

    async def _refuse(self, queued: QueuedRow, failure: Failure) -> None:
        """It cannot be started: it is withdrawn, with the reason."""
        store = self._workspace.store
        self._environments.pop(queued.id, None)
        row = await run_sync(store.turn, queued.id)
        known = await run_sync(store.conversation_by_id, queued.conversation)
        hold = self._workspace.config.queue.on_failure == "hold"
        if row is not None:
            key = known.key if known is not None else ""
            await run_sync(partial(take_out, store, row, key, failure, hold=hold))


async def _pause(woken: asyncio.Event, longest_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(woken.wait(), longest_s)


def _may_be_asked(ask: TurnRequest) -> bool:
    """Whether somebody is expected to answer the agent. Otherwise it is told at once that nobody does."""
    return ask.answers or ask.questions == "on"
