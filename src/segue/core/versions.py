"""Version numbers as comparable values, for the adapters' version tables."""

from __future__ import annotations

import re


def parts(version: str | None) -> tuple[int, ...]:
    """``"2.1.325-beta.1"`` as ``(2, 1, 325)``; an unknown version sorts before all others."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in found[0].split(".")) if found else ()
