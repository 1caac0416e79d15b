"""Segue carries a conversation across headless coding-agent runs.

The public names; each is imported when it is first used, so that ``import segue`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segue.app.segue import Segue
    from segue.app.sync import SyncSegue
    from segue.core.errors import Broken, ConfigError, InUse, Misuse, NotInstalled, SegueError
    from segue.core.ladder import Decision
    from segue.core.turn import Check, Turn
    from segue.runner.attempt import Cancel
    from segue.turns.why import Why

__version__ = "0.1.0"

_HOMES = {
    "Broken": "segue.core.errors",
    "Cancel": "segue.runner.attempt",
    "Check": "segue.core.turn",
    "ConfigError": "segue.core.errors",
    "Decision": "segue.core.ladder",
    "InUse": "segue.core.errors",
    "Misuse": "segue.core.errors",
    "NotInstalled": "segue.core.errors",
    "Segue": "segue.app.segue",
    "SegueError": "segue.core.errors",
    "SyncSegue": "segue.app.sync",
    "Turn": "segue.core.turn",
    "Why": "segue.turns.why",
}
"""Where each public name is at home."""

__all__ = [
    "Broken",
    "Cancel",
    "Check",
    "ConfigError",
    "Decision",
    "InUse",
    "Misuse",
    "NotInstalled",
    "Segue",
    "SegueError",
    "SyncSegue",
    "Turn",
    "Why",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
