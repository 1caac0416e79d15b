"""The life of a process, from its start until no process of its group remains.

exited by itself ─▶ grace ─▶ output complete ─▶ TERM ─▶ KILL to what lingers ─▶ gone
cancel, time limit ─▶ TERM ─▶ grace ─▶ KILL ─▶ output complete ─▶ processes that left the group ─▶ gone
"""

from __future__ import annotations

import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from segue.core.outcome import EndedBy, Exit
from segue.core.stream import LINE_CAP
from segue.system.groups import KILL_WAIT_S, ProcessGroup, end_marked
from segue.system.loop import anyio

if TYPE_CHECKING:
    from segue.system.pipes import Capture


class Limits(msgspec.Struct, frozen=True):
    """How long things may take, in seconds, and how long a line may be."""

    time_s: float | None = None
    """The whole run."""
    grace_s: float = 5.0
    """From TERM to KILL."""
    exit_grace_s: float = 0.3
    """From the exit to the last line, while other processes of the group are alive."""
    linger_s: float = 1.0
    """From TERM to KILL for processes that outlive the main one."""
    finish_s: float = 30.0
    """From its final event to its exit."""
    line_cap: int = LINE_CAP
    output_bytes: int = 2 * 1024**3
    """How much it may print before it is ended."""
    after_end_bytes: int = 8 * 1024**2
    """How much of its output is still read after we ended it."""


class Child:
    """The process. Its exit is awaited in a separate thread: a grandchild that keeps a pipe open, or an event
    loop that starts later than the process, makes no difference."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self.pid = process, process.pid

    async def wait(self) -> int:
        """Its exit code; minus the signal that ended it."""
        import asyncio

        exited, loop = asyncio.Event(), asyncio.get_running_loop()

        def watch() -> None:
            self._process.wait()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(exited.set)

        threading.Thread(target=watch, daemon=True, name=f"exit of {self.pid}").start()
        await exited.wait()
        return self._process.wait()


class Supervisor:
    """``supervise`` must run; ``end`` and ``cancel`` only ask it to act."""

    def __init__(self, process: Child, capture: Capture, limits: Limits, mark: str) -> None:
        self._process, self._capture, self._limits, self._mark = process, capture, limits, mark
        self._group = ProcessGroup(process.pid)
        self._ended_by: EndedBy | None = None
        self._cancels = 0
        self._over = anyio.Event()
        self.exit: Exit | None = None
        self.code: int | None = None
        self.exited = anyio.Event()
        self.finishing = anyio.Event()
        self.said_all = anyio.Event()
        """It exited and the grace period is over: its output files are complete."""
        self.gone = anyio.Event()

    def end(self, by: EndedBy | None) -> None:
        """End it, unless it has ended or is being ended. After its final event the turn is complete: whatever
        ends the process then does not interrupt the turn."""
        if not self._over.is_set():
            self._ended_by = None if self.finishing.is_set() else by
            self._over.set()

    def cancel(self) -> None:
        self._cancels += 1
        self.end("cancelled")

    async def limit_time(self) -> None:
        if self._limits.time_s is not None:
            await anyio.sleep(self._limits.time_s)
            self.end("timeout")

    async def see_off(self) -> None:
        """After its final event it should exit. If it stays, it is ended, and the turn has not failed."""
        await self.finishing.wait()
        await anyio.sleep(self._limits.finish_s)
        self.end(None)

    async def supervise(self) -> None:
        """Make sure that no process is left behind. Only the end of the event loop can interrupt this."""
        try:
            with anyio.CancelScope(shield=True):
                await self._see_through()
        except BaseException:
            self._group.signal(signal.SIGKILL)
            raise
        finally:
            self.gone.set()

    async def leave(self) -> None:
        """The caller leaves: end the process if it still runs, and wait until its group is gone."""
        self.end("cancelled")
        with anyio.CancelScope(shield=True):
            await self.gone.wait()

    async def _see_through(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._await_exit)
            await self._over.wait()
            await self._end_group()
            with anyio.move_on_after(KILL_WAIT_S):
                await self.said_all.wait()
            tasks.cancel_scope.cancel()
        ended = self._settle()
        if ended.ended_by or (ended.signal and not self.finishing.is_set()):
            await end_marked(self._mark, self._limits.linger_s, self._hurry)

    async def _await_exit(self) -> None:
        self.code = await self._process.wait()
        self._over.set()
        self.exited.set()
        await self._group.gone_within(self._limits.exit_grace_s)
        self._settle()

    async def _end_group(self) -> None:
        grace_s = self._limits.grace_s
        if self.code is not None:
            grace_s = self._limits.linger_s
            await self.said_all.wait()
        await self._group.end(grace_s, self._hurry)

    def _settle(self) -> Exit:
        if self.exit is None:
            self.exit = Exit(self.code, self._ended_by, self._capture.stderr_tail())
            self.said_all.set()
        return self.exit

    def _hurry(self) -> bool:
        return self._cancels > 1
