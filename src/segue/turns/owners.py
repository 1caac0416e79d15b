"""Who holds a lease, and whether they still live: this process, and the process groups of attempts."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

import msgspec

from segue.store.records import Owner
from segue.turns.ending import Group
from segue.turns.processes import Identity, boot_id, mark, marked, start_time


def host_name(configured: str | None) -> str:
    return configured or socket.gethostname()


def this_process(host: str) -> Owner:
    start, boot = _this(os.getpid())
    return Owner(host=host, pid=os.getpid(), start_time=start, boot_id=boot)


def lives(owner: Owner) -> bool:
    """Whether the process still runs. Only for owners on this host."""
    return (
        owner.boot_id == boot_id()
        and owner.start_time is not None
        and start_time(owner.pid) == owner.start_time
    )


def attempt_lives(run_dir: Path) -> bool:
    """Whether anybody of an attempt's process group is still there."""
    identity = known(run_dir)
    if identity is None:  # killed between the start and the note of it
        return bool(marked(mark(run_dir)))
    if identity.boot_id != boot_id():
        return False
    leader = identity.start_time is not None and start_time(identity.pid) == identity.start_time
    if leader and Group(identity.pgid).alive():
        return True
    return any(_group_of(pid) == identity.pgid for pid in marked(mark(run_dir)))


def known(run_dir: Path) -> Identity | None:
    try:
        return msgspec.json.decode((run_dir / "process.json").read_bytes(), type=Identity)
    except (OSError, msgspec.MsgspecError):
        return None


def groups_of(run_dir: Path) -> list[int]:
    """The process groups to signal so that an attempt ends."""
    identity = known(run_dir)
    pids = marked(mark(run_dir))
    found = {group for pid in pids if (group := _group_of(pid)) is not None}
    return sorted(found | ({identity.pgid} if identity is not None and attempt_lives(run_dir) else set()))


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@cache
def _this(pid: int) -> tuple[str | None, str | None]:
    return start_time(pid), boot_id()


def short_name(owner: Owner) -> str:
    return f"process {owner.pid} on {owner.host}"
