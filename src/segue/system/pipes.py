"""Where a process writes to and reads from: ``stdout`` and ``stderr`` are files, stdin is a pipe.

Files, so that the process continues undisturbed if Segue is killed, and a later Segue can continue reading.
Both are opened for appending, so that ``stderr`` can be truncated in place while it is written.

The pipe is written as fast as it is read and never blocks the loop. A process that does not read its stdin,
or closes it early, is not an error: the rest is dropped. (This is not asyncio's pipe, because that one keeps
a second copy of everything it is given.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from functools import cached_property
from typing import TYPE_CHECKING

from segue.core.errors import Broken
from segue.system.loop import anyio

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from subprocess import Popen


CHUNK = 256 * 1024
CREATE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
USUAL_PIPE, LARGEST_PIPE = 64 * 1024, 1024 * 1024
STDERR_MAX = 8 * 1024 * 1024
STDERR_TAIL = 64 * 1024
TAIL_READS = 5
_KEEPER = 'n=$2; while [ "$n" -gt 0 ] && kill -0 "$1"; do n=$((n - 1)); sleep 1; done'
"""Keeps its stdout open while a process lives, at most for this many seconds."""


class Capture:
    """Creates both files and reads them. A run directory is used by one process, once."""

    def __init__(self, run_dir: Path) -> None:
        self.stdout, self.stderr = run_dir / "stdout", run_dir / "stderr"
        self._offset = 0
        self._fds: list[int] = []
        try:
            run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            run_dir.chmod(0o700)
            self.for_child = self._open(self.stdout, CREATE), self._open(self.stderr, CREATE)
            self._reader = self._open(self.stdout, os.O_RDONLY)
            self._errors = self._open(self.stderr, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            self.close()
            raise _refusal(run_dir, error) from error

    def handed_over(self) -> None:
        """Close our copies of the files that the process inherited."""
        for fd in self.for_child:
            os.close(fd)
            self._fds.remove(fd)

    def size(self) -> int:
        return os.fstat(self._reader).st_size

    @property
    def offset(self) -> int:
        """How far stdout has been read."""
        return self._offset

    def read(self, end: int | None = None) -> bytes:
        """The next piece of stdout, up to ``end``; empty if there is none yet."""
        room = CHUNK if end is None else min(CHUNK, end - self._offset)
        chunk = os.pread(self._reader, room, self._offset) if room > 0 else b""
        self._offset += len(chunk)
        return chunk

    def rewound(self) -> bool:
        """Whether the file was truncated by someone (``> /dev/stdout`` does that): then start over."""
        if self.size() >= self._offset:
            return False
        self._offset = 0
        return True

    def bound_stderr(self) -> None:
        """If the file grew too long, keep only its end. What is written at that moment may be lost."""
        size = os.fstat(self._errors).st_size
        if size <= STDERR_MAX:
            return
        with contextlib.suppress(OSError):
            for _ in range(TAIL_READS):  # again, if more was written meanwhile
                tail, before = os.pread(self._errors, STDERR_TAIL, size - STDERR_TAIL), size
                size = os.fstat(self._errors).st_size
                if size == before:
                    break
            os.ftruncate(self._errors, 0)
            os.write(self._errors, tail)

    def stderr_tail(self) -> str:
        size = os.fstat(self._errors).st_size
        tail = os.pread(self._errors, STDERR_TAIL, max(0, size - STDERR_TAIL))
        return tail.decode("utf-8", "replace")

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def discard(self) -> None:
        """Remove the files of a process that was never started."""
        for path in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                path.unlink()

    def _open(self, path: Path, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._fds.append(fd)
        return fd


def _refusal(run_dir: Path, error: OSError) -> Broken:
    if isinstance(error, FileExistsError) and run_dir.is_dir():
        return Broken(f"{run_dir} already holds the output of another run")
    return Broken(f"cannot write to {run_dir}: {error.strerror}; free some space, or move SEGUE_HOME")


class Stdin:
    """A pipe to a process. ``reader`` is the process's end: pass it on, then call ``handed_over``."""

    def __init__(self) -> None:
        self.reader, self._fd = os.pipe()
        os.set_blocking(self._fd, False)
        self._open = True
        self._held = True
        self._waits = False
        self._keeper: Popen[bytes] | None = None

    @cached_property
    def _turn(self) -> anyio.Lock:
        return anyio.Lock()

    def handed_over(self) -> None:
        """Close our copy of the process's end, so that we notice when the process closes it."""
        if self._held:
            self._held = False
            os.close(self.reader)

    def write_now(self, data: bytes) -> memoryview:
        """Write what fits into the pipe, without waiting. Returns the rest."""
        view = memoryview(data)
        if len(view) > USUAL_PIPE and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # the system allows each user only so much
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, min(len(view), LARGEST_PIPE))
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            return memoryview(b"")
        return view

    async def write(self, data: bytes | memoryview) -> None:
        """Return when everything is written or the process reads no more. One writer at a time."""
        view = memoryview(data)
        async with self._turn:
            while view and self._open:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    await self._writable()
                except BrokenPipeError:
                    self.close()

    def keep_open(self, pid: int, most_s: float, env: Mapping[str, str]) -> None:
        """From now on the input does not end if we are killed: only with the process, or after ``most_s``.

        A process that waits for an answer would take the end of its input for one. ``env``: the keeper's.
        """
        import subprocess

        if self._keeper is not None or not self._open:
            return
        with contextlib.suppress(OSError):
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "keeper", str(pid), str(int(most_s) + 1)],
                stdin=subprocess.DEVNULL,
                stdout=self._fd,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(env),
            )

    def keep_no_longer(self) -> None:
        """The process waits for nothing any more."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(keeper.pid, signal.SIGKILL)
            keeper.wait()

    async def finish(self) -> None:
        """End the input, after what is being written."""
        async with self._turn:
            self.close()

    def close(self) -> None:
        """End the input now. A writer that still waits gives up."""
        self.keep_no_longer()
        if self._open:
            self._open = False
            if self._waits:
                anyio.notify_closing(self._fd)
            os.close(self._fd)
        self.handed_over()

    async def _writable(self) -> None:
        self._waits = True
        with contextlib.suppress(anyio.ClosedResourceError):  # ``write`` checks for itself
            await anyio.wait_writable(self._fd)
        self._waits = False
