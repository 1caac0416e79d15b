"""The system's keyring, in which some CLIs keep a key: never asked, only known of."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def is_reachable(env: Mapping[str, str]) -> bool:
    """Whether a program with this environment could ask one."""
    return sys.platform == "darwin" or bool(env.get("DBUS_SESSION_BUS_ADDRESS"))
