"""What this machine is called among those that share a store."""

from __future__ import annotations

import socket


def host_name(configured: str | None) -> str:
    return configured or socket.gethostname()
