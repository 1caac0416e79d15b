"""The turns that the library runs, each in a task. If the caller of a turn goes away, it is cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.to_thread import run_sync

from segue.app.ready_turn import Answerer, Cancel, Listener, NoticeListener, ReadyTurn
from segue.core.turn import Turn

CLOSE_S = 30.0
"""How long closing ``Segue`` waits for cancelled turns to end."""


class RunningTurns:
    """Starts turns as separate tasks and knows which have not ended, in whichever thread they run.

    ``daemon``: the daemon runs them."""

    def __init__(self, daemon: bool = False) -> None:
        self._daemon = daemon
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
        run = self._through_daemon(ready) if self._daemon else ready.run
        turn = run(on_event=on_event, on_notice=on_notice, answer=answer, cancel=cancel)
        # Not in a task group: a generator can be closed from a different task than the one it ran in.
        task = asyncio.create_task(turn, name=f"segue {ready.key}")
        self._turns[task] = (cancel, threading.Event())
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel the turns that still run, and wait for them."""
        running = list(self._turns.values())
        for cancel, _ in running:
            cancel()
        if running:
            await run_sync(_wait_for_all, [ended for _, ended in running])

    def _through_daemon(self, ready: ReadyTurn) -> Callable[..., Coroutine[Any, Any, Turn]]:
        from segue.app.daemon_turn import DaemonTurn

        return DaemonTurn(ready).run

    def _ended(self, task: asyncio.Task[Turn]) -> None:
        _, ended = self._turns.pop(task)
        ended.set()


async def wait(task: asyncio.Task[Turn], cancel: Cancel) -> Turn:
    """Wait for the turn to end. If the caller is cancelled meanwhile, the turn is cancelled first."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await cancel_and_wait(task, cancel)
        raise


async def cancel_and_wait(task: asyncio.Task[Turn], cancel: Cancel) -> None:
    """Cancel a turn that no caller waits for any more, and wait until it has ended."""
    if not task.done():
        cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # retrieve it, or asyncio logs that it was never retrieved


def _wait_for_all(turns: list[threading.Event]) -> None:
    until = time.monotonic() + CLOSE_S
    for ended in turns:
        ended.wait(max(0.0, until - time.monotonic()))
