"""The command of a rehearsal, and the signals that reach us meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

GRACE_S = 5.0
ENDING = (signal.SIGTERM, signal.SIGHUP)


class Signals:
    """INT, TERM and HUP while the stage stands: heard, not ignored, so that a command has the defaults."""

    def __init__(self) -> None:
        self.any = threading.Event()
        self.numbers: list[int] = []
        self._listener: Callable[[int], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, *ENDING):
            if (
                number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
            ):  # under nohup it stays so
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def tell(self, listener: Callable[[int], None]) -> None:
        """From now on; what was heard before comes first."""
        self._listener = listener
        for number in self.numbers:
            listener(number)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.numbers.append(number)
        self.any.set()
        if self._listener is not None:
            self._listener(number)


class Cast:
    """The command and its group. It hears Ctrl-C as if we were not there; TERM and HUP end it for good.

    In front of a terminal it stays in our group, which the terminal talks to; elsewhere it has its own.
    """

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._apart = not _in_front()
        self._leading = os.getpgrp() == os.getpid()
        self._ended = 0.0
        self._last = threading.Timer(GRACE_S, self._kill)
        self._last.daemon = True
        self._process = subprocess.Popen(argv, env=env, process_group=0 if self._apart else None)

    def hear(self, number: int) -> None:
        if number in ENDING and not self._ended:
            self._ended = time.monotonic()
            self._send(number)
            self._last.start()
        elif number == signal.SIGINT and self._apart:
            self._send(number)

    def wait(self) -> int:
        """The command's exit code; 128 + N when signal N ended it."""
        code = self._process.wait()
        if self._ended and self._apart:
            while self._anybody() and time.monotonic() < self._ended + GRACE_S:
                time.sleep(0.02)
            self._kill()
        self._last.cancel()
        return 128 - code if code < 0 else code

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._apart:
                os.killpg(self._process.pid, number)
            elif self._leading:
                os.killpg(0, number)  # that is us as well, and we have heard it
            else:
                self._process.send_signal(number)

    def _kill(self) -> None:
        if self._apart:
            self._send(signal.SIGKILL)
        else:
            self._process.kill()

    def _anybody(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _in_front() -> bool:
    """Whether our group is the one that a terminal talks to."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
