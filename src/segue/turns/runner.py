"""Runs a command: starts it, follows what it writes, and ends it for certain.

The process leads its own group and writes to files (``capture``), so a killed Segue does it no harm.
The end is its *exit*, never the end of a stream: a grandchild that keeps stdout open holds nothing up.

Who is ended with it:

- Always: what is left of its group (MCP servers that linger, background jobs). The native session may be
  passed on only when nobody of the group can still write to it.
- When it was cancelled, timed out or killed: also those who left the group by ``setsid``, known by the
  mark in their environment (where ``/proc`` exists).
- After a normal end those are left alone: the agent put them there on purpose.
"""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager, closing
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from segue.core.errors import SegueError
from segue.core.frames import Line, Lines, Oversize
from segue.turns.capture import Capture
from segue.turns.life import Life, Limits
from segue.turns.processes import MARK, mark
from segue.turns.spawn import note, spawn
from segue.turns.stdin import Stdin
from segue.turns.watch import Growth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from segue.core.outcome import Exit
    from segue.core.request import Command

__all__ = ["Limits", "Oversize", "Running", "launch"]

DEFAULTS = Limits()


class Running:
    """A process started by ``launch``."""

    def __init__(self, pid: int, life: Life, capture: Capture, stdin: Stdin, limits: Limits) -> None:
        self.pid = pid
        self._life, self._capture, self._stdin = life, capture, stdin
        self._limits = limits
        self._framer = Lines(limits.line_cap)
        self._wake = anyio.Event()
        self._fed = anyio.Event()

    @property
    def exit(self) -> Exit:
        """How it ended; known once ``lines`` ended."""
        if self._life.exit is None:
            raise RuntimeError("the process has not ended yet")
        return self._life.exit

    async def lines(self) -> AsyncIterator[Line]:
        """Every line it writes, as it writes it, until it exited and a short grace is over."""
        end: int | None = None
        while True:
            self._wake = wake = anyio.Event()
            if end is None and self._life.said_all.is_set():
                end = self._capture.size()
                if self.exit.ended_by is not None:  # what it printed before we ended it may be endless
                    end = min(end, self._capture.offset + self._limits.after_end_bytes)
            lines = self._framer.finish() if self._capture.rewound() else []
            chunk = self._capture.read(end)
            for line in lines + self._framer.feed(chunk):
                yield line
            if chunk:
                await checkpoint()
            elif end is None:
                await wake.wait()
            else:
                break
        for line in self._framer.finish():
            yield line

    async def send(self, line: bytes) -> None:
        """Write a line to its stdin, after all that went before. Dropped when it reads no more."""
        await self._fed.wait()
        await self._stdin.write(line if line.endswith(b"\n") else line + b"\n")

    async def close_stdin(self) -> None:
        """Tell it that no more input comes, once all that was sent is written."""
        await self._fed.wait()
        await self._stdin.finish()

    async def finish(self) -> None:
        """It said its final word: close its stdin at once, and end it if it does not leave in time."""
        self._stdin.close()
        self._life.finishing.set()

    def cancel(self) -> None:
        """TERM to its group, KILL after the grace. Called again: KILL at once."""
        self._life.cancel()

    async def _feed(self, command: Command) -> None:
        try:
            await self._stdin.write(command.stdin)
            if not command.hold_stdin:
                self._stdin.close()
        finally:
            self._fed.set()

    async def _watch(self, growth: Growth) -> None:
        while True:
            await growth.wait()
            self._capture.bound_stderr()
            if self._capture.size() > self._limits.output_bytes:
                self._life.end("flood")
            self._wake.set()

    async def _see_end(self) -> None:
        await self._life.exited.wait()
        self._stdin.close()
        await self._life.said_all.wait()
        self._wake.set()


@asynccontextmanager
async def launch(
    command: Command,
    *,
    env: Mapping[str, str],
    run_dir: Path,
    limits: Limits = DEFAULTS,
    claims: Sequence[int] = (),
) -> AsyncIterator[Running]:
    """Start ``command`` in the environment ``env`` plus its own, with its output in ``run_dir``.

    However the block is left, nobody of the process's group outlives it. Raises ``NotInstalled`` or
    ``Misuse`` when it cannot be started. ``command.files`` are the caller's to write. ``claims``: open files
    whose locks the process holds too, for as long as it lives.
    """
    failure: Exception | None = None
    run_mark = mark(run_dir)
    with ExitStack() as stack:
        capture = stack.enter_context(closing(Capture(run_dir)))
        growth = stack.enter_context(closing(Growth(capture.stdout, capture.stderr)))
        stdin = stack.enter_context(closing(Stdin()))
        try:
            process = await spawn(command, {**env, **command.env, MARK: run_mark}, stdin, capture, claims)
        except SegueError:
            capture.discard()
            raise
        life = Life(process, capture, limits, run_mark)
        running = Running(process.pid, life, capture, stdin, limits)
        async with anyio.create_task_group() as tasks:
            for job in (life.supervise, life.limit_time, life.see_off, running._see_end):
                tasks.start_soon(job)
            tasks.start_soon(running._feed, command)
            tasks.start_soon(running._watch, growth)
            try:
                note(run_dir, process.pid, command)
                yield running
            except Exception as error:
                failure = error  # raised below: the task group would wrap it
            finally:
                await life.leave()
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
