"""The upgrade of a store by a newer Segue: never while a daemon of an older one works on it."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from segue.app.daemon_file import DaemonFile, lives, lock_of, read_file, store_mark
from segue.core.errors import InUse

if TYPE_CHECKING:
    from segue.config.home import Home

WAIT_S = 45.0
"""How long a daemon may take to finish its turns and end."""
POLL_S = 0.05


@contextmanager
def without_daemon(home: Home, store_url: str | None, notice: Callable[[str], None]) -> Iterator[None]:
    """Hold the daemon's lock, so that none runs and none starts. One that runs is asked to finish its turns
    and end. Raises ``InUse`` if it has not ended in time. A daemon of another store is left alone.
    """
    handle = os.open(lock_of(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    asked: DaemonFile | None = None
    try:
        until = time.monotonic() + WAIT_S
        while not _locked(handle):
            told = read_file(home)
            if told is not None and lives(home, told):
                if told.store not in (None, store_mark(store_url)):
                    break
                if asked is None:
                    asked = told
                    _ask_to_end(told, notice)
            if time.monotonic() > until:
                raise InUse(_refusal(asked))
            time.sleep(POLL_S)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ask_to_end(told: DaemonFile, notice: Callable[[str], None]) -> None:
    notice(
        f"this Segue upgrades the store; ending the daemon of Segue {told.version} (pid {told.pid}) when its"
        " turns have finished. segue serve --background starts a new one"
    )
    if not told.stopping:  # a second signal would end it at once
        with suppress(ProcessLookupError):
            os.kill(told.pid, signal.SIGTERM)


def _refusal(told: DaemonFile | None) -> str:
    which = f"the daemon of Segue {told.version} (pid {told.pid})" if told is not None else "a daemon"
    return f"{which} still uses the store, which this Segue has to upgrade; try again after segue stop"
