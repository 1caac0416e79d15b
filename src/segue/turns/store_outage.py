"""Waits for a store that is away (restarted, locked, full), so that finished work is not lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from segue.core.errors import Broken
from segue.runner.attempt import Cancel
from segue.system.loop import anyio, in_loop, run_sync

LIMIT_S = 45.0
"""The longest wait in all; the next run writes what remains."""
SAID_S = 3.0
"""After this long the caller is told what we wait for."""
PAUSE_S = (0.1, 1.0)
WAITING = "the store cannot be written; waiting for it"

T = TypeVar("T")


class StoreStillAway(Broken):
    """The store was away for longer than the limit."""


class StoreOutage:
    """Retries a write while the store is away. All calls together wait no longer than the limit."""

    def __init__(self, notice: Callable[[str], None], cancel: Cancel) -> None:
        self._notice, self._cancel = notice, cancel
        self._left_s = LIMIT_S
        self._said = False

    async def __call__(self, do: Callable[[], T]) -> T:
        """The result of ``do``. Raises ``StoreStillAway`` if the time is over, or if the user cancels."""
        await in_loop()
        done: list[T] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._say)
            try:
                done.append(await self._insist(do))
            except Exception as error:
                failure = error  # raised below: the task group would wrap it
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return done[0]

    async def _insist(self, do: Callable[[], T]) -> T:
        until, asked = time.monotonic() + self._left_s, self._cancel.asked
        pause_s = PAUSE_S[0]
        while True:
            try:
                return await run_sync(do)
            except Broken as trouble:
                self._left_s = max(0.0, until - time.monotonic())
                if not self._left_s or self._cancel.asked > asked:
                    raise StoreStillAway(str(trouble)) from trouble
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])

    async def _say(self) -> None:
        await anyio.sleep(SAID_S)
        if not self._said:
            self._said = True
            self._notice(WAITING)
