"""Loads msgspec in a shorter time.

It prefers typing_extensions to typing, which has had all that it needs since Python 3.11. Loading
typing_extensions takes as long as loading a third of everything a turn needs before its agent starts.
"""

from __future__ import annotations

import sys

_UNNEEDED = "typing_extensions"


def load_msgspec() -> None:
    """Load msgspec without typing_extensions, which can still be loaded afterwards."""
    if _UNNEEDED in sys.modules:
        return
    # This is how Python is told that there is no such module.
    sys.modules[_UNNEEDED] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401 - only to load it
    finally:
        del sys.modules[_UNNEEDED]
