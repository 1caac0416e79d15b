"""What the system knows of processes: who they are, in which group, and which of them are ours.

``/proc`` answers where it exists, ``ps`` elsewhere. A zombie counts as gone.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import zlib
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

HAS_PROC = Path("/proc/self/stat").exists()
MARK = "SEGUE_RUN_ID"
PS_LIMIT_S = 5.0
MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class Identity(msgspec.Struct, frozen=True):
    """Enough to know a process again later: its number alone may be another's by then."""

    pid: int
    pgid: int
    start_time: str | None
    boot_id: str | None
    argv0: str
    started_ms: int
    pid_ns: str | None = None


def identify(pid: int, argv0: str) -> Identity:
    """The process that was just started as the leader of its own group."""
    return Identity(pid, pid, start_time(pid), boot_id(), argv0, time.time_ns() // 1_000_000, pid_ns())


def start_time(pid: int) -> str | None:
    """When it started, in the system's own words; None if it is gone."""
    if HAS_PROC:
        fields = _stat(pid)
        return fields[19].decode("ascii") if fields else None
    return _output("ps", "-o", "lstart=", "-p", str(pid))


def boot_id() -> str | None:
    """What tells this run of the machine from the one before."""
    if HAS_PROC:
        with contextlib.suppress(OSError):
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return _output("sysctl", "-n", "kern.bootsessionuuid")


@cache
def machine_id() -> str | None:
    """What tells this machine from others, whatever it is called; containers may have that of their image.

    Not the system's id itself, which is meant to stay on the machine.
    """
    found = next(filter(None, map(_line_of, MACHINE_IDS)), None)
    if found is None and sys.platform == "darwin":
        listed = _output("ioreg", "-rd1", "-c", "IOPlatformExpertDevice") or ""
        found = next((line.split('"')[3] for line in listed.splitlines() if '"IOPlatformUUID"' in line), None)
    return sha256(f"segue {found}".encode()).hexdigest()[:32] if found else None


def pid_ns() -> str | None:
    """Within which the numbers of processes mean something; None where there is only one such space."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def up_ms() -> int:
    """For how long this machine has been up."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return round(time.clock_gettime(clock) * 1000)


def mark(run_dir: Path) -> str:
    """The value of ``SEGUE_RUN_ID``: the directory's name, and which of all directories of that name."""
    return f"{run_dir.name}-{zlib.crc32(os.fsencode(run_dir.absolute())):08x}"


def marked(value: str) -> list[int]:
    """Living processes that carry the mark in their environment. Without ``/proc`` nobody can tell."""
    if not HAS_PROC:
        return []
    wanted = f"{MARK}={value}".encode()
    return [pid for pid in _pids() if pid != os.getpid() and wanted in _environ(pid)]


def groups(pids: Iterable[int] | None = None) -> dict[int, int]:
    """The group of each of ``pids`` (default: of all there are) that lives."""
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
    """The fields of ``/proc/PID/stat`` from the third on: the second, a name, may contain anything."""
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
