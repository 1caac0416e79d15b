"""A network namespace with loopback alone: whatever runs in it reaches 127.0.0.1 and nothing else."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000


def enter() -> str:
    """Move this process into such a namespace. Returns the reason if that is impossible, else ""."""
    if alone():
        return _raise_loopback()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError as error:
        return f"no libc: {error}"
    if not hasattr(libc, "unshare"):
        return "this system has no network namespaces"
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNET if uid == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        return f"no network namespace can be made here: {os.strerror(ctypes.get_errno())}"
    if uid != 0:
        _map_root(uid, gid)
    return _raise_loopback()


def alone() -> bool:
    """Whether loopback is the only interface."""
    return {name for _, name in socket.if_nameindex()} == {"lo"}


def _map_root(uid: int, gid: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _raise_loopback() -> str:
    ip = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
    if ip is None:
        return "the program ip (package iproute2) is missing"
    done = subprocess.run([ip, "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""
