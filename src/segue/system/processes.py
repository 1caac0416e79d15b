"""What the system knows about processes: their identity, their group, which are ours, and which are alive.

Uses ``/proc`` where it exists, ``ps`` elsewhere. A zombie counts as gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.core.ids import sha256_hex
from segue.core.json_values import decode
from segue.core.model import Host, Owner
from segue.system import clock

if TYPE_CHECKING:
    from collections.abc import Iterable


HAS_PROC = Path("/proc/self/stat").exists()
MARK = "SEGUE_MARK"
"""The one variable of ours that a child gets: for which run directory its process was started."""
PS_LIMIT_S = 5.0
MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class Identity(msgspec.Struct, frozen=True):
    """Enough to recognise a process later: its PID alone may have been reused by then."""

    pid: int
    pgid: int
    start_time: str | None
    boot_id: str | None
    argv0: str
    started_ms: int
    pid_ns: str | None = None


def identify(pid: int, argv0: str) -> Identity:
    """The identity of a process that was just started as the leader of its own group."""
    return Identity(pid, pid, start_time(pid), boot_id(), argv0, clock.now_ms(), pid_ns())


def start_time(pid: int) -> str | None:
    """When it started, in the system's own format; None if it is gone."""
    if HAS_PROC:
        fields = _stat(pid)
        return fields[19].decode("ascii") if fields else None
    return _output("ps", "-o", "lstart=", "-p", str(pid))


def boot_id() -> str | None:
    """An id of the machine's current boot."""
    if HAS_PROC:
        with contextlib.suppress(OSError):
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return _output("sysctl", "-n", "kern.bootsessionuuid")


@cache
def machine_id() -> str | None:
    """An id of this machine, independent of its name; containers may share that of their image.

    It is a hash of the system's id, which is meant to stay on the machine.
    """
    found = next(filter(None, map(_line_of, MACHINE_IDS)), None)
    if found is None and sys.platform == "darwin":
        listed = _output("ioreg", "-rd1", "-c", "IOPlatformExpertDevice") or ""
        found = next((line.split('"')[3] for line in listed.splitlines() if '"IOPlatformUUID"' in line), None)
    return sha256_hex(f"segue {found}".encode())[:32] if found else None


def pid_ns() -> str | None:
    """The PID namespace of this process; None if the system has none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def mnt_ns() -> str | None:
    """The mount namespace of this process; None if the system has none."""
    try:
        return os.readlink("/proc/self/ns/mnt")
    except OSError:
        return None


def up_ms() -> int:
    """The uptime of this machine."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return round(time.clock_gettime(clock) * 1000)


def process_mark(run_dir: Path) -> str:
    """The value of ``MARK``: the directory's name. No two directories of runs have the same one."""
    return run_dir.name


def marked_processes(value: str) -> list[int]:
    """The live processes with this mark in their environment. Without ``/proc`` none can be found."""
    if not HAS_PROC:
        return []
    wanted = f"{MARK}={value}".encode()
    return [pid for pid in _pids() if pid != os.getpid() and wanted in _environ(pid)]


def groups(pids: Iterable[int] | None = None) -> dict[int, int]:
    """The group of each live process in ``pids`` (default: all processes)."""
    if not HAS_PROC:
        table = _ps_table()
        return table if pids is None else {pid: table[pid] for pid in pids if pid in table}
    found = {}
    for pid in _pids() if pids is None else pids:
        fields = _stat(pid)
        if fields and fields[0] not in b"ZX":
            found[pid] = int(fields[2])
    return found


def _line_of(path: str) -> str:
    try:
        text = Path(path).read_text("ascii", "replace").strip()
    except OSError:
        return ""
    return "" if text == "uninitialized" else text


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[bytes]:
    """The fields of ``/proc/PID/stat`` from the third on; the second, a name, may contain any character."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _ps_table() -> dict[int, int]:
    rows = [row.split() for row in (_output("ps", "-axo", "pid=,pgid=,stat=") or "").splitlines()]
    return {int(row[0]): int(row[1]) for row in rows if len(row) == 3 and not row[2].startswith("Z")}


def _output(*argv: str) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PS_LIMIT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


HEARD_MS = 10_000
"""A live holder renews its lease at least this often."""
STARTING_S = 60.0
"""How long after its files were created a process may still be starting its program."""


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


def owner_lives(owner: Owner, host: Host, silent_ms: int) -> bool | None:
    """Whether the process still runs; None: that cannot be determined from here.

    ``silent_ms``: the time since its last sign of life. If that was after this machine booted, the process
    did not end with an earlier boot: it is on another machine that was made from the same image.
    """
    if not _same_machine(owner, host):
        return None
    if owner.boot_id not in (None, boot_id()):
        return False if silent_ms > max(up_ms(), HEARD_MS) else None
    if owner.pid_ns not in (None, pid_ns()):
        return None
    return _is_still(owner.pid, owner.start_time)


def is_near(owner: Owner, host: Host) -> bool:
    """Whether it runs or ran on this machine, or in this home, so that its files may be found here."""
    return host.has(owner) or _same_machine(owner, host)


def attempt_lives(run_dir: Path) -> bool:
    """Whether any process of an attempt's process group is still alive."""
    identity = known_attempt(run_dir)
    if identity is None:  # Segue was killed after the start, before it was recorded
        return bool(marked_processes(process_mark(run_dir))) or _is_starting(run_dir)
    if _is_hidden(identity):
        return bool(marked_processes(process_mark(run_dir))) or _is_held(run_dir / "stdout")
    return leader_lives(run_dir) or bool(lingering(run_dir))


def leader_lives(run_dir: Path) -> bool:
    """Whether the attempt's own process is known and runs."""
    identity = known_attempt(run_dir)
    return identity is not None and _is_seen(identity) and _is_still(identity.pid, identity.start_time)


def leader_is_gone(run_dir: Path) -> bool:
    """Whether the attempt's own process is known to have ended."""
    identity = known_attempt(run_dir)
    return identity is not None and not _is_hidden(identity) and not leader_lives(run_dir)


def lingering(run_dir: Path) -> list[int]:
    """The id of the attempt's own group, in a list, if processes other than its leader remain."""
    identity = known_attempt(run_dir)
    if identity is None or not _is_seen(identity):
        return []
    left = any(_group_of(pid) == identity.pgid for pid in marked_processes(process_mark(run_dir)))
    return [identity.pgid] if left else []


def known_attempt(run_dir: Path) -> Identity | None:
    try:
        return decode((run_dir / "process.json").read_bytes(), Identity)
    except (OSError, msgspec.MsgspecError):
        return None


def groups_of(run_dir: Path) -> list[int]:
    """The process groups to signal to end an attempt, including those that left its own group."""
    identity = known_attempt(run_dir)
    found = {
        group for pid in marked_processes(process_mark(run_dir)) if (group := _group_of(pid)) is not None
    }
    return sorted(found | ({identity.pgid} if identity is not None and leader_lives(run_dir) else set()))


def short_name(owner: Owner) -> str:
    return f"process {owner.pid} on {owner.host}"


def _same_machine(owner: Owner, host: Host) -> bool:
    mine = machine_id()
    return host.has(owner) if owner.machine is None or mine is None else owner.machine == mine


def _is_still(pid: int, started: str | None) -> bool:
    """Whether that process runs. A zombie has the same PID and start time, but does not run."""
    return started is not None and start_time(pid) == started and pid in groups([pid])


def _is_starting(run_dir: Path) -> bool:
    """Whether a process holds the attempt's stdout although it does not have the attempt's mark (yet).

    A process that was just forked gets the mark only when it runs its program, and without ``/proc`` marks
    cannot be searched. ``spawn`` locks the stdout that the process inherits, so the lock shows that it lives.
    """
    stdout = run_dir / "stdout"
    try:
        fresh = clock.now_s() - stdout.stat().st_ctime < STARTING_S
    except OSError:
        return False
    return (fresh or not HAS_PROC) and _is_held(stdout)


def _is_held(stdout: Path) -> bool:
    """Whether a process holds the lock on it, which is visible from every PID namespace."""
    try:
        with stdout.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _is_hidden(identity: Identity) -> bool:
    """Whether it may be alive in another PID namespace, where its PID means nothing to us."""
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
