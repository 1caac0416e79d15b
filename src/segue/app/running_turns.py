"""The turns that the library runs, each in a task. One that nobody waits for any more is ended in order."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
from anyio.to_thread import run_sync

from segue.app.ready_turn import Answerer, Cancel, Listener, NoticeListener, ReadyTurn
from segue.core.turn import Turn

CLOSE_S = 30.0
"""How long cancelled turns may take to end when ``Segue`` is closed."""


class RunningTurns:
    """Starts turns as tasks of their own and knows which have not ended, in whatever thread they run."""

    def __init__(self) -> None:
        self._turns: dict[asyncio.Task[Turn], tuple[Cancel, threading.Event]] = {}

    def start(
        self,
        ready: ReadyTurn,
        cancel: Cancel,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
    ) -> asyncio.Task[Turn]:
        turn = ready.run(on_event=on_event, on_notice=on_notice, answer=answer, cancel=cancel)
        # A task of its own, not of a group: a generator may be closed from another task than it ran in.
        task = asyncio.create_task(turn, name=f"segue {ready.key}")
        self._turns[task] = (cancel, threading.Event())
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """End what still runs, and wait for it."""
        left = list(self._turns.values())
        for cancel, _ in left:
            cancel()
        if left:
            await run_sync(_wait_for_all, [ended for _, ended in left])

    def _ended(self, task: asyncio.Task[Turn]) -> None:
        _, ended = self._turns.pop(task)
        ended.set()


async def wait(task: asyncio.Task[Turn], cancel: Cancel) -> Turn:
    """The turn, once it has ended. If the caller is cancelled meanwhile, so is the turn, in order."""
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
        task.exception()  # retrieved, so that asyncio does not log that nobody did


def _wait_for_all(turns: list[threading.Event]) -> None:
    until = time.monotonic() + CLOSE_S
    for ended in turns:
        ended.wait(max(0.0, until - time.monotonic()))
