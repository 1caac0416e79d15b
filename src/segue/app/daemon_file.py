"""``daemon.json``: what a daemon tells about itself in its home. This module loads nothing heavy.

The file alone is not believed: a daemon that was killed leaves it behind, its PID may belong to another
process by now, and the home may be a copy of the one that the daemon serves.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.core.json_values import decode
from segue.system import processes

if TYPE_CHECKING:
    from segue.config.home import Home


class DaemonFile(msgspec.Struct, frozen=True, kw_only=True):
    """Where the daemon listens, and which process it is."""

    url: str
    pid: int
    version: str
    protocol: int
    started: int
    """Milliseconds since 1970."""
    start_time: str | None = None
    boot_id: str | None = None
    machine_id: str | None = None
    """A hash of the machine's id."""
    pid_ns: str | None = None
    mnt_ns: str | None = None
    uid: int | None = None
    home: str | None = None
    """The home's device and inode: a copy of a home has no daemon."""
    store: str | None = None
    """A hash of the store's address."""
    stopping: bool = False
    """It finishes its runs, and accepts nothing new."""


def lock_of(home: Home) -> Path:
    return home.root / "daemon.lock"


def file_of(home: Home) -> Path:
    return home.root / "daemon.json"


def read_file(home: Home) -> DaemonFile | None:
    """What the file says; None: there is none, or it cannot be read."""
    try:
        return decode(file_of(home).read_bytes(), DaemonFile)
    except (OSError, msgspec.MsgspecError):
        return None


def lives(home: Home, told: DaemonFile) -> bool:
    """Whether that very process runs and serves this home, and not another one with its PID."""
    if told.boot_id != processes.boot_id() or told.pid_ns != processes.pid_ns():
        return False
    if told.home not in (None, place_of(home)):
        return False
    same = told.start_time is not None and processes.start_time(told.pid) == told.start_time
    return same and told.pid in processes.groups([told.pid])


def place_of(home: Home) -> str | None:
    try:
        found = os.stat(home.root)
    except OSError:
        return None
    return f"{found.st_dev}:{found.st_ino}"


def store_mark(url: str | None) -> str:
    """By which two processes tell whether they use the same store. The address may contain a password."""
    return sha256(f"segue store {url or ''}".encode()).hexdigest()[:16]
