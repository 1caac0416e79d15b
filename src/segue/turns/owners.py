"""Who holds a lease, and whether they still live: this process, and the process groups of attempts."""

from __future__ import annotations

import fcntl
import os
import time
from functools import cache
from pathlib import Path

import msgspec

from segue.core.decoder import decode
from segue.core.hosts import Host
from segue.store.leases import RENEW_S
from segue.store.records import Owner
from segue.turns.processes import (
    HAS_PROC,
    Identity,
    boot_id,
    groups,
    machine_id,
    mark,
    marked,
    pid_ns,
    start_time,
    up_ms,
)

HEARD_MS = 2 * RENEW_S * 1000
"""Within so long a holder that lives is heard."""
STARTING_S = 60.0
"""So long after its files were made a process may still be on its way to what it is to run."""


def this_process(host: Host) -> Owner:
    start, boot = _this(os.getpid())
    return Owner(
        host=host.name,
        host_id=host.id,
        pid=os.getpid(),
        start_time=start,
        machine=machine_id(),
        boot_id=boot,
        pid_ns=pid_ns(),
    )


def lives(owner: Owner, host: Host, silent_ms: int) -> bool | None:
    """Whether the process still runs; None: that cannot be seen from here.

    ``silent_ms``: for how long nothing was heard of it. Whoever spoke after this machine came up did not go
    down with it: they are on another one that was made from the same image.
    """
    if not _same_machine(owner, host):
        return None
    if owner.boot_id not in (None, boot_id()):
        return False if silent_ms > max(up_ms(), HEARD_MS) else None
    if owner.pid_ns not in (None, pid_ns()):
        return None
    return _is_still(owner.pid, owner.start_time)


def is_near(owner: Owner, host: Host) -> bool:
    """Whether it runs or ran on this machine, or in this home: so that what it wrote may be found here."""
    return host.has(owner) or _same_machine(owner, host)


def attempt_lives(run_dir: Path) -> bool:
    """Whether anybody of an attempt's process group is still there."""
    identity = known(run_dir)
    if identity is None:  # killed between the start and the note of it
        return bool(marked(mark(run_dir))) or _is_starting(run_dir)
    if _is_hidden(identity):
        return bool(marked(mark(run_dir))) or _is_held(run_dir / "stdout")
    return leader_lives(run_dir) or bool(lingering(run_dir))


def leader_lives(run_dir: Path) -> bool:
    """Whether the attempt's own process runs, as far as it is known which that is."""
    identity = known(run_dir)
    return identity is not None and _is_seen(identity) and _is_still(identity.pid, identity.start_time)


def leader_is_gone(run_dir: Path) -> bool:
    """Whether it is known that the attempt's own process runs no more."""
    identity = known(run_dir)
    return identity is not None and not _is_hidden(identity) and not leader_lives(run_dir)


def lingering(run_dir: Path) -> list[int]:
    """The number of the attempt's own group, if others than its leader are left of it."""
    identity = known(run_dir)
    if identity is None or not _is_seen(identity):
        return []
    left = any(_group_of(pid) == identity.pgid for pid in marked(mark(run_dir)))
    return [identity.pgid] if left else []


def known(run_dir: Path) -> Identity | None:
    try:
        return decode((run_dir / "process.json").read_bytes(), Identity)
    except (OSError, msgspec.MsgspecError):
        return None


def groups_of(run_dir: Path) -> list[int]:
    """The process groups to signal so that an attempt ends, with those who left its own group."""
    identity = known(run_dir)
    found = {group for pid in marked(mark(run_dir)) if (group := _group_of(pid)) is not None}
    return sorted(found | ({identity.pgid} if identity is not None and leader_lives(run_dir) else set()))


def short_name(owner: Owner) -> str:
    return f"process {owner.pid} on {owner.host}"


def _same_machine(owner: Owner, host: Host) -> bool:
    mine = machine_id()
    return host.has(owner) if owner.machine is None or mine is None else owner.machine == mine


def _is_still(pid: int, started: str | None) -> bool:
    """Whether that process runs. A zombie has its number and its start time, but it runs no more."""
    return started is not None and start_time(pid) == started and pid in groups([pid])


def _is_starting(run_dir: Path) -> bool:
    """Whether somebody has the attempt's stdout as their own, although they do not carry its mark (yet).

    A process that was just forked carries it only once it runs its program; and nobody can look for marks
    where there is no ``/proc``. The lock is the system's: ``spawn`` takes it on what the process inherits.
    """
    stdout = run_dir / "stdout"
    try:
        fresh = time.time() - stdout.stat().st_ctime < STARTING_S
    except OSError:
        return False
    return (fresh or not HAS_PROC) and _is_held(stdout)


def _is_held(stdout: Path) -> bool:
    """Whether anybody has it as their own; the lock of that is seen from every PID namespace."""
    try:
        with stdout.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _is_hidden(identity: Identity) -> bool:
    """Whether it may live where its number means nothing to us."""
    return identity.boot_id == boot_id() and identity.pid_ns not in (None, pid_ns())


def _is_seen(identity: Identity) -> bool:
    return identity.boot_id == boot_id() and not _is_hidden(identity)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@cache
def _this(pid: int) -> tuple[str | None, str | None]:
    return start_time(pid), boot_id()
