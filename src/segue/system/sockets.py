"""Sockets on loopback, and Unix sockets: who is at the other end, paths too long for an address."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 103
"""Bytes of a path in an address, on every system."""
_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED = 0, 1, 76


def listen(path: Path) -> socket.socket:
    """A socket that only this user can connect to. What was at the path before is replaced."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _short(path) as short:
            made.bind(short)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    made.listen(128)
    made.setblocking(False)
    return made


def listen_on_loopback(port: int) -> socket.socket:
    """A socket that listens on loopback; port 0: on any. Raises ``OSError`` if the port is taken."""
    # Only if the protocol is named, asyncio sends small writes at once. Otherwise an answer's body waits up
    # to 40 ms for the client to acknowledge its headers.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(128)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Connect to a socket of this user. Raises ``OSError``, also if another user listens there."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        with _short(path) as short:
            made.connect(short)
        if peer_uid(made) != os.getuid():
            raise PermissionError(f"another user listens at {path}")
    except BaseException:
        made.close()
        raise
    return made


def peer_uid(connected: socket.socket) -> int | None:
    """The user at the other end; None if the system does not tell."""
    try:
        if sys.platform == "darwin":
            told = connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED)
            return int(struct.unpack_from("=II", told)[1])
        told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    except (OSError, AttributeError, struct.error):
        return None


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The path; if it is too long for an address, the same place through a link with a short name."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="segue-", dir="/tmp") as folder:
        link = Path(folder) / "d"
        link.symlink_to(path.parent.absolute(), target_is_directory=True)
        yield str(link / path.name)
