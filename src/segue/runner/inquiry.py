"""Asks a CLI's own server one thing, and ends it: not a turn, and no model is asked."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

T = TypeVar("T")

GRACE_S = 2.0
LINE_CAP = 1_000_000
Lines = queue.SimpleQueue[bytes | None]


def inquire(
    argv: Sequence[str],
    sent: bytes,
    read: Callable[[bytes], T | None],
    *,
    env: Mapping[str, str],
    cwd: Path,
    time_s: float,
) -> T | None:
    """The first line of its output from which ``read`` makes something; None: there was none in time.

    Its input stays open until then: some servers end with it. Raises ``OSError`` if it cannot be started.
    """
    process = subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines: Lines = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    over = threading.Timer(time_s, lines.put, (None,))
    over.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(sent)
            process.stdin.flush()
        return next((found for line in iter(lines.get, None) if (found := read(line)) is not None), None)
    finally:
        over.cancel()
        _end(process)
        with suppress(OSError):
            process.stdin.close()
        reader.join(GRACE_S)


def _read(out: IO[bytes], lines: Lines) -> None:
    with out, suppress(OSError, ValueError):
        while line := out.readline(LINE_CAP):
            lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group: the CLI may have started others."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
