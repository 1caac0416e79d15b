"""The calls of tools that were refused: how many, and of which tools."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

NAMES = 20
"""So many tools are named at most."""
LONGEST = 100
"""Characters of a name."""


class Denied(msgspec.Struct, frozen=True):
    """``names``: each once, in the order of their first call. Not every call has a name that is known."""

    count: int = 0
    names: tuple[str, ...] = ()

    def __add__(self, other: Denied) -> Denied:
        return Denied(self.count + other.count, distinct((*self.names, *other.names)))

    def __str__(self) -> str:
        """``2 tool calls were refused: Write, Bash``."""
        calls = "1 tool call was" if self.count == 1 else f"{self.count:,} tool calls were"
        return f"{calls} refused" + (f": {', '.join(self.names)}" if self.names else "")


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, as far as there is one."""
    known = dict.fromkeys(name[:LONGEST] for name in names if name)
    return tuple(known)[:NAMES]
