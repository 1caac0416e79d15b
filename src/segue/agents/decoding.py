"""Reading files of other programs, damaged or not: times, and who is logged in."""

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
"""What decoding raises for a record that is torn, has another shape, is not UTF-8, or is nested too deep."""
REREAD_S = 0.05
"""The pause before a broken file is read a second time."""


def moment_ms(text: str | None) -> int | None:
    """An ISO 8601 time as milliseconds since 1970; None for any other text. Local time if it has no zone."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000) if text else None
    except (ValueError, OverflowError, OSError):
        return None


def login_fingerprint(path: Path, kind: type[T], who: Callable[[T], str | None]) -> str | None:
    """A hash of who is logged in according to a file, never the name itself.

    None if nobody is, or the file cannot be read. A broken file is read a second time, because the CLI may
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
    from hashlib import sha256  # most turns do not need it, and start faster without it

    return sha256(text.encode()).hexdigest()[:16]
