"""The pipe into a process: written as fast as it is read, never blocking the loop.

A process that does not read its stdin, or closes it early, is not an error: what it did not want is
dropped. (A pipe of our own rather than asyncio's: that one keeps a second copy of all it is given.)
"""

from __future__ import annotations

import contextlib
import os

import anyio


class Stdin:
    """``reader`` is the process's end; hand it over, then call ``handed_over``."""

    def __init__(self) -> None:
        self.reader, self._fd = os.pipe()
        os.set_blocking(self._fd, False)
        self._open = True
        self._held = True
        self._turn = anyio.Lock()

    def handed_over(self) -> None:
        """Let go of the process's end, so that its closing is seen as such."""
        if self._held:
            self._held = False
            os.close(self.reader)

    async def write(self, data: bytes) -> None:
        """Return when all is written or nobody reads any more. One writer at a time."""
        view = memoryview(data)
        async with self._turn:
            while view and self._open:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    await self._writable()
                except BrokenPipeError:
                    self.close()

    async def finish(self) -> None:
        """End of input, after what is being written."""
        async with self._turn:
            self.close()

    def close(self) -> None:
        """End of input, now. A writer that still waits gives up."""
        if self._open:
            self._open = False
            anyio.notify_closing(self._fd)
            os.close(self._fd)
        self.handed_over()

    async def _writable(self) -> None:
        with contextlib.suppress(anyio.ClosedResourceError):  # ``write`` sees for itself
            await anyio.wait_writable(self._fd)
