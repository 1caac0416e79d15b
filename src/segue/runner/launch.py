"""Runs a command: starts it, follows its output, and ends it reliably.

The process leads its own group and writes to files, so it survives if Segue is killed. The run ends with the
process's *exit*, never with the end of a stream: a grandchild that keeps stdout open delays nothing. What is
ended with it:

- Always: the rest of its group (MCP servers that linger, background jobs). The native session may be passed
  on only when no process of the group can still write to it.
- If it was cancelled, timed out or killed: also processes that left the group by ``setsid``, recognised by
  the mark in their environment (where ``/proc`` exists).
- After a normal end those are left alone: the agent started them on purpose.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.core.environment import OURS
from segue.core.errors import Misuse, NotInstalled, SegueError
from segue.core.stream import LineSplitter, Oversize, StreamLine
from segue.runner.supervisor import Child, Limits, Supervisor
from segue.system.file_watch import FileWatch
from segue.system.files import which, write_whole
from segue.system.groups import ProcessGroup
from segue.system.loop import anyio, in_loop
from segue.system.pipes import Capture, Stdin
from segue.system.processes import MARK, identify, process_mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from segue.core.outcome import Exit
    from segue.core.request import Command

__all__ = ["Limits", "Oversize", "Running", "launch"]
DEFAULTS = Limits()


@asynccontextmanager
async def launch(
    command: Command,
    *,
    env: Mapping[str, str],
    run_dir: Path,
    limits: Limits = DEFAULTS,
    claims: Sequence[int] = (),
) -> AsyncIterator[Running]:
    """Start ``command`` in the environment ``env`` plus its own, with its output in ``run_dir``. Of our
    variables it gets the mark alone.

    However the block is left, no process of the group outlives it. Raises ``NotInstalled`` or ``Misuse`` if
    it cannot be started. ``claims``: open files whose locks the process also holds.
    """
    failure: Exception | None = None
    run_mark = process_mark(run_dir)
    with ExitStack() as stack:
        capture = stack.enter_context(closing(Capture(run_dir)))
        growth = FileWatch(capture.stdout, capture.stderr)
        stdin = stack.enter_context(closing(Stdin()))
        given = {name: value for name, value in {**env, **command.env}.items() if not name.startswith(OURS)}
        full_env = {**given, MARK: run_mark}
        process, unsent = await _start(command, full_env, run_dir, stdin, capture, claims)
        life = Supervisor(process, capture, limits, run_mark)
        running = Running(process.pid, life, capture, stdin, limits, run_mark)
        async with anyio.create_task_group() as tasks:
            helpers = (
                partial(running._feed, unsent, command.hold_stdin),
                partial(running._watch, growth),
                running._see_end,
            )
            for job in (life.supervise, life.limit_time, life.see_off, *helpers):
                tasks.start_soon(job)
            try:
                yield running
            except Exception as error:
                failure = error  # raised below: the task group would wrap it
            finally:
                await life.leave()
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Running:
    """A process started by ``launch``."""

    def __init__(
        self, pid: int, life: Supervisor, capture: Capture, stdin: Stdin, limits: Limits, mark: str = ""
    ) -> None:
        self.pid, self._mark = pid, mark
        self._life, self._capture, self._stdin = life, capture, stdin
        self._limits = limits
        self._framer = LineSplitter(limits.line_cap)
        self._wake = anyio.Event()
        self._fed = anyio.Event()

    @property
    def exit(self) -> Exit:
        """How it ended; available once ``lines`` has ended."""
        if self._life.exit is None:
            raise RuntimeError("the process has not ended yet")
        return self._life.exit

    async def lines(self) -> AsyncIterator[StreamLine]:
        """Every line as it is written, until the process has exited and a short grace period is over."""
        from anyio.lowlevel import checkpoint

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
        """Write a line to its stdin, after everything sent before. Dropped if it no longer reads."""
        await self._fed.wait()
        await self._stdin.write(line if line.endswith(b"\n") else line + b"\n")

    def keep_stdin(self, most_s: float) -> None:
        """It waits for an answer: if we are killed, its input does not end before ``most_s``."""
        self._stdin.keep_open(self.pid, most_s, {MARK: self._mark, "PATH": os.defpath})

    def release_stdin(self) -> None:
        """It does not wait any more."""
        self._stdin.keep_no_longer()

    async def close_stdin(self) -> None:
        """End its input, once everything that was sent is written."""
        await self._fed.wait()
        await self._stdin.finish()

    async def finish(self) -> None:
        """After its final event: close its stdin at once, and end it if it does not exit in time."""
        self._stdin.close()
        self._life.finishing.set()

    def cancel(self) -> None:
        """TERM to its group, KILL after the grace period. A second call sends KILL at once."""
        self._life.cancel()

    async def _feed(self, unsent: memoryview, hold: bool) -> None:
        try:
            await self._stdin.write(unsent)
            if not hold:
                self._stdin.close()
        finally:
            self._fed.set()

    async def _watch(self, growth: FileWatch) -> None:
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


async def _start(
    command: Command,
    env: Mapping[str, str],
    run_dir: Path,
    stdin: Stdin,
    capture: Capture,
    claims: Sequence[int],
) -> tuple[Child, memoryview]:
    """Start the process and record it; return in the event loop, where it can be supervised.

    Also returns the part of its input that did not fit into the pipe. A prompt usually fits, and is there
    before the process is: whenever we are killed, the process has it.
    """
    unsent = stdin.write_now(command.stdin)
    try:
        process = spawn(command, env, stdin, capture, claims)
    except SegueError:
        capture.discard()
        raise
    try:
        note_process(run_dir, process.pid, command)
        if not unsent and not command.hold_stdin:
            stdin.close()
        await in_loop()
    except BaseException:
        ProcessGroup(process.pid).signal(signal.SIGKILL)
        raise
    return process, unsent


def spawn(
    command: Command, env: Mapping[str, str], stdin: Stdin, capture: Capture, claims: Sequence[int] = ()
) -> Child:
    """Start the process. No ``preexec_fn``: that would make every start thirty times slower.

    ``claims``: files that it keeps open while it lives, so that their locks outlive us. Its stdout is locked
    too: if we are killed, the lock reveals a process that was started but not recorded yet.
    """
    if not command.cwd.is_dir():
        raise Misuse(f"the directory {command.cwd} does not exist; choose another with --cwd")
    stdout, stderr = capture.for_child
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(stdout, fcntl.LOCK_EX | fcntl.LOCK_NB)
    start = subprocess.Popen
    if command.inherited is not None:
        from segue.runner.child import start_child

        start = partial(start_child, inherited=command.inherited)  # type: ignore[assignment]
    try:
        process = start(
            command.argv,
            stdin=stdin.reader,
            stdout=stdout,
            stderr=stderr,
            cwd=command.cwd,
            env=env,
            start_new_session=True,
            pass_fds=claims,
        )
    except (OSError, ValueError) as error:
        raise _refusal(command, env, error) from error
    stdin.handed_over()
    capture.handed_over()
    return Child(process)


def note_process(run_dir: Path, pid: int, command: Command) -> None:
    """Write ``process.json``, by which a later Segue recognises the process."""
    identity = msgspec.json.encode(identify(pid, command.argv[0]))
    write_whole(run_dir / "process.json", identity, durable=False)  # a power cut ends the process too


def _refusal(command: Command, env: Mapping[str, str], error: OSError | ValueError) -> SegueError:
    program = command.argv[0]
    if isinstance(error, ValueError):
        return Misuse(f"{program} cannot be started: an argument or variable contains a NUL character")
    if error.errno == errno.E2BIG:
        return Misuse(f"the command line for {program} is too long for this system; shorten the prompt")
    if str(error.filename) == str(command.cwd):
        return Misuse(f"the directory {command.cwd} cannot be entered: {error.strerror}")
    found = which(program, env.get("PATH"))
    if found is None and not Path(program).exists():
        return NotInstalled(f"{program} was not found; install it, or set the command in config.toml")
    if isinstance(error, FileNotFoundError):
        return NotInstalled(f"{found or program} cannot be started: the interpreter it names is missing")
    return NotInstalled(f"{found or program} cannot be started: {error.strerror}")
