"""Commands that flows run themselves, each in a process group of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

HEAD_BYTES, TAIL_BYTES = 2 * 1024, 6 * 1024
"""How much of a long output is kept: its beginning, and its end."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a check. ``code`` None: it did not end in time."""

    command: str
    code: int | None
    output: str = ""
    """What it printed, without the middle if that is long."""

    @property
    def passed(self) -> bool:
        return self.code == 0


async def run_check(command: str, directory: Path, env: Mapping[str, str], timeout_s: float) -> CheckResult:
    """Run a command by ``sh -c``, and wait for its end. What it has started is ended with it."""
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", command),
            cwd=directory,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        try:
            with suppress(TimeoutError):
                code = await asyncio.wait_for(process.wait(), timeout_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
        return CheckResult(command=command, code=code, output=_shown(output))


def _shown(output: IO[bytes]) -> str:
    """What was printed, without the middle if that is long."""
    size = output.seek(0, os.SEEK_END)
    output.seek(0)
    if size <= HEAD_BYTES + TAIL_BYTES:
        return output.read().decode(errors="replace")
    head = output.read(HEAD_BYTES).decode(errors="replace")
    output.seek(size - TAIL_BYTES)
    tail = output.read().decode(errors="replace")
    return f"{head}\n(… {size - HEAD_BYTES - TAIL_BYTES:,} bytes are left out …)\n{tail}"
