"""Waits until one of some files has grown: the system says so, nobody asks again and again.

Linux tells through inotify, macOS and the BSDs through kqueue; where neither can be had (another
system, or all inotify instances are taken) a short timer stands in. Some file systems never tell; that
is what the backstop is for.

No wake-up is lost if the order is: make a ``Growth``, read to the end, ``wait``, read to the end, …
What grew between two waits makes the next one return at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TIMER_S = 0.05
BACKSTOP_S = 1.0


class Source(Protocol):
    """A descriptor that becomes readable when a file grew."""

    def fileno(self) -> int: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...


class FileWatch:
    """Watches ``paths``, which must exist, from now on until ``close``."""

    def __init__(self, *paths: Path) -> None:
        self._source = _source(paths)

    async def wait(self) -> None:
        """Return when a file was written to since the last return; at times also for nothing."""
        if self._source is None:
            await anyio.sleep(TIMER_S)
            return
        with anyio.move_on_after(BACKSTOP_S):
            await anyio.wait_readable(self._source.fileno())
            self._source.drain()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None


def _source(paths: Sequence[Path]) -> Source | None:
    try:
        return SystemWatch(paths)
    except (OSError, AttributeError):
        return None


if sys.platform == "linux":
    import ctypes

    IN_MODIFY, IN_CLOSE_WRITE = 0x002, 0x008

    class SystemWatch:
        """inotify. The standard library has no binding; two calls of libc are enough."""

        def __init__(self, paths: Sequence[Path]) -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            self._fd = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            try:
                for path in paths:
                    _checked(libc.inotify_add_watch(self._fd, os.fsencode(path), IN_MODIFY | IN_CLOSE_WRITE))
            except OSError:
                self.close()
                raise

        def fileno(self) -> int:
            return self._fd

        def drain(self) -> None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 65_536)

        def close(self) -> None:
            # The kernel takes 5 to 20 ms to take an instance down; nobody needs to wait for that.
            threading.Thread(target=os.close, args=(self._fd,), daemon=True).start()

    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

else:

    class SystemWatch:
        """kqueue. Holds each file open for reading: kqueue watches descriptors, not names."""

        def __init__(self, paths: Sequence[Path]) -> None:
            self._files: list[int] = []
            self._queue = select.kqueue()
            try:
                for path in paths:
                    self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                self._queue.control([_grows(fd) for fd in self._files], 0, 0)
            except OSError:
                self.close()
                raise

        def fileno(self) -> int:
            return self._queue.fileno()

        def drain(self) -> None:
            self._queue.control(None, 16, 0)

        def close(self) -> None:
            self._queue.close()
            for fd in self._files:
                os.close(fd)

    def _grows(fd: int) -> select.kevent:
        return select.kevent(
            fd,
            select.KQ_FILTER_VNODE,
            select.KQ_EV_ADD | select.KQ_EV_CLEAR,
            select.KQ_NOTE_WRITE | select.KQ_NOTE_EXTEND,
        )
