"""Taking a session of the rehearsal agent away: its file and its lock. There is no index."""

from __future__ import annotations

from contextlib import suppress

from segue.agents.reader import Stored
from segue.core.errors import Broken


def remove(stored: Stored) -> None:
    if not stored.path.parent.resolve().is_relative_to(stored.home.resolve()):
        raise Broken(f"{stored.path} lies outside of its home: it is left alone")
    for path in (stored.path, stored.path.with_suffix(".lock")):
        with suppress(FileNotFoundError):
            path.unlink()
