"""Turns that are under way: whoever goes away from one, it is brought to its end in order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync

from segue.core.turn import Turn
from segue.runner.attempt import Answerer, Cancel, Listener
from segue.store.store import Store
from segue.turns.prepare import Prepared
from segue.turns.turn import run

Notice = Callable[[str], None]
PATIENCE_S = 30.0
"""How long turns that were cancelled may take to end when the door is closed."""


class RunningTurns:
    """Starts turns as tasks of their own and knows which have not ended, in whatever thread they run."""

    def __init__(self) -> None:
        self._turns: dict[asyncio.Task[Turn], tuple[Cancel, threading.Event]] = {}

    def start(
        self,
        prepared: Prepared,
        store: Store,
        cancel: Cancel,
        *,
        on_event: Listener | None = None,
        on_notice: Notice | None = None,
        answer: Answerer | None = None,
        again: str | None = None,
    ) -> asyncio.Task[Turn]:
        turn = run(
            prepared,
            store,
            on_event=on_event,
            on_notice=on_notice,
            answer=answer,
            cancel=cancel,
            again=again,
        )
        # A task of its own, not of a group: a generator may be closed from another task than it ran in.
        task = asyncio.create_task(turn, name=f"segue {prepared.ask.key}")
        self._turns[task] = (cancel, threading.Event())
        task.add_done_callback(self._over)
        return task

    async def close(self) -> None:
        """End what still runs, and wait for it."""
        left = list(self._turns.values())
        for cancel, _ in left:
            cancel()
        if left:
            await run_sync(_wait, [over for _, over in left])

    def _over(self, task: asyncio.Task[Turn]) -> None:
        _, over = self._turns.pop(task)
        over.set()


async def wait(task: asyncio.Task[Turn], cancel: Cancel) -> Turn:
    """The turn, once it has ended. A caller that is cancelled meanwhile cancels it, and sees it off."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await cancel_and_wait(task, cancel)
        raise


async def cancel_and_wait(task: asyncio.Task[Turn], cancel: Cancel) -> None:
    """Nobody waits for the turn any more: end it, if it has not ended by itself."""
    if not task.done():
        cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # looked at, so that nobody is told that nobody did


def _wait(turns: list[threading.Event]) -> None:
    until = time.monotonic() + PATIENCE_S
    for over in turns:
        over.wait(max(0.0, until - time.monotonic()))
