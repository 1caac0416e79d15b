"""Who holds a lease, and whether they still live: this process, and the process groups of attempts."""

from __future__ import annotations

import fcntl
import os
import time
from functools import cache
from pathlib import Path

import msgspec

from segue.store.records import Owner
from segue.turns.processes import HAS_PROC, Identity, boot_id, groups, mark, marked, start_time

STARTING_S = 60.0
"""So long after its files were made a process may still be on its way to what it is to run."""


def this_process(host: str) -> Owner:
    start, boot = _this(os.getpid())
    return Owner(host=host, pid=os.getpid(), start_time=start, boot_id=boot)


def lives(owner: Owner) -> bool:
    """Whether the process still runs. Only for owners on this host."""
    return owner.boot_id == boot_id() and _is_still(owner.pid, owner.start_time)


def attempt_lives(run_dir: Path) -> bool:
    """Whether anybody of an attempt's process group is still there."""
    identity = known(run_dir)
    if identity is None:  # killed between the start and the note of it
        return bool(marked(mark(run_dir))) or _is_starting(run_dir)
    return leader_lives(run_dir) or bool(lingering(run_dir))


def leader_lives(run_dir: Path) -> bool:
    """Whether the attempt's own process runs, as far as it is known which that is."""
    identity = known(run_dir)
    return (
        identity is not None
        and identity.boot_id == boot_id()
        and _is_still(identity.pid, identity.start_time)
    )


def lingering(run_dir: Path) -> list[int]:
    """The number of the attempt's own group, if others than its leader are left of it."""
    identity = known(run_dir)
    if identity is None or identity.boot_id != boot_id():
        return []
    left = any(_group_of(pid) == identity.pgid for pid in marked(mark(run_dir)))
    return [identity.pgid] if left else []


def known(run_dir: Path) -> Identity | None:
    try:
        return msgspec.json.decode((run_dir / "process.json").read_bytes(), type=Identity)
    except (OSError, msgspec.MsgspecError):
        return None


def groups_of(run_dir: Path) -> list[int]:
    """The process groups to signal so that an attempt ends, with those who left its own group."""
    identity = known(run_dir)
    found = {group for pid in marked(mark(run_dir)) if (group := _group_of(pid)) is not None}
    return sorted(found | ({identity.pgid} if identity is not None and leader_lives(run_dir) else set()))


def short_name(owner: Owner) -> str:
    return f"process {owner.pid} on {owner.host}"


def _is_still(pid: int, started: str | None) -> bool:
    """Whether that process runs. A zombie has its number and its start time, but it runs no more."""
    return started is not None and start_time(pid) == started and pid in groups([pid])


def _is_starting(run_dir: Path) -> bool:
    """Whether somebody has the attempt's stdout as their own, although they do not carry its mark (yet).

    A process that was just forked carries it only once it runs its program; and nobody can look for marks
    where there is no ``/proc``. The lock is the system's: ``spawn`` takes it on what the process inherits.
    """
    try:
        with (run_dir / "stdout").open("rb") as file:
            fresh = time.time() - os.fstat(file.fileno()).st_ctime < STARTING_S
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return fresh or not HAS_PROC
    except OSError:
        pass
    return False


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@cache
def _this(pid: int) -> tuple[str | None, str | None]:
    return start_time(pid), boot_id()
