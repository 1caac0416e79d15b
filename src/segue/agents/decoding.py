"""Reading what other programs wrote, whatever has become of it: damage, moments, and who is logged in."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.core.json_values import decode

T = TypeVar("T")

DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a record that is torn, of another shape, no UTF-8, or nested without end."""
REREAD_S = 0.05
"""So long a file that somebody is just rewriting may be broken."""


def moment_ms(text: str | None) -> int | None:
    """An ISO 8601 time as milliseconds since 1970; None for what is none. Without a zone it is local time."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000) if text else None
    except (ValueError, OverflowError, OSError):
        return None


def login_fingerprint(path: Path, kind: type[T], who: Callable[[T], str | None]) -> str | None:
    """A hash of who is logged in by a file's own words, never the name itself.

    None: nobody, or the file cannot be read. One that is broken is looked at once more, because the CLI may
    be writing it.
    """
    for pause in (REREAD_S, 0.0):
        try:
            name = who(decode(path.read_bytes(), kind))
        except FileNotFoundError:
            return None
        except (OSError, *DAMAGE):
            time.sleep(pause)
            continue
        return _hashed(name) if name else None
    return None


def _hashed(text: str) -> str:
    from hashlib import sha256  # most turns never ask, and start faster without it

    return sha256(text.encode()).hexdigest()[:16]
