"""Which of those that share a store this is: its name, and an id that a new name does not change."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from segue.config.homes import Home
from segue.core.hosts import Host


def this_host(configured: str | None, home: Home) -> Host:
    """The id is the home's own: containers of one image have the same machine id, and often the same name."""
    return Host(configured or socket.gethostname(), _id(home))


def _id(home: Home) -> str | None:
    """As it stands in the home; made up when it is first asked for. None where nothing can be kept."""
    with suppress(OSError):
        if not home.host.exists():
            _make(home)
        return home.host.read_text("ascii", "replace").strip() or None
    return None


def _make(home: Home) -> None:
    """Whole, and once, however many come at the same moment."""
    home.make(home.root)
    part = home.host.with_name(f"host.{os.getpid()}.{os.urandom(4).hex()}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="ascii") as file:
        file.write(os.urandom(16).hex() + "\n")
    try:
        os.link(part, home.host)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        part.replace(home.host)
    finally:
        part.unlink(missing_ok=True)
