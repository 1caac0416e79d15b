"""Private homes of runners that no longer exist: find, lock and delete them."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from segue.sessions.agent_homes import AgentHome
from segue.store.store import Store
from segue.system import clock


class IdleHome(msgspec.Struct, frozen=True):
    """A private home without a runner, and when it was last used."""

    home: Path
    used_ms: float


def idle_homes(runners: Path, days: float, keep: Iterable[str]) -> list[IdleHome]:
    """Private homes without a runner and without any of the paths in ``keep``, not used for ``days``."""
    real = [os.path.realpath(path) for path in keep]
    found = []
    for home in sorted(runners.glob("*/*")):
        if home.is_symlink() or not home.is_dir() or _holds(home, real):
            continue
        used = _used_ms(home)
        if clock.now_s() * 1000 - used >= days * 24 * 3_600_000 and _free(home):
            found.append(IdleHome(home, used))
    return found


def _holds(home: Path, real: Iterable[str]) -> bool:
    """Whether one of these paths is the home, or is inside it."""
    root = os.path.realpath(home)
    return any(path == root or path.startswith(f"{root}{os.sep}") for path in real)


def _used_ms(home: Path) -> float:
    """When something in it was last written. If that cannot be read, it may be in use."""
    try:
        newest = home.lstat().st_mtime
    except OSError:
        return math.inf
    for path in _logs(home):
        with suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return newest * 1000


def _logs(home: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(home / "logs"):
        yield from (Path(folder) / name for name in names)


def _lock(home: Path) -> int | None:
    """Its lock, if no other process has it. The file stays: another runner may have it open."""
    try:
        lock = os.open(home.with_name(f"{home.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _free(home: Path) -> bool:
    lock = _lock(home)
    if lock is not None:
        os.close(lock)
    return lock is not None


def claim_home(idle: IdleHome, held: ExitStack) -> bool:
    """Lock a home. False if another process has it, or if it was used since it was examined."""
    lock = _lock(idle.home)
    if lock is None:
        return False
    held.callback(os.close, lock)
    return _used_ms(idle.home) <= idle.used_ms


def remove_home(places: Iterable[AgentHome], store: Store, home: Path) -> bool:
    """Delete a home that we have locked. Not if a pin points there by now, or if a session remains in it."""
    if _holds(home, map(os.path.realpath, store.pinned_homes())):
        return False
    for place in places:
        if _holds(home, [os.path.realpath(place.home)]) and any(
            True for _ in place.archive.stored(place.home)
        ):
            return False
    try:
        shutil.rmtree(home)
    except OSError:
        return False
    return True
