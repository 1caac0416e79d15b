"""The only source of the time and of random values."""

from __future__ import annotations

import os
import time

from segue.core.ids import id_of


def now_s() -> float:
    """Seconds since 1970."""
    return time.time()


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_id(at_ms: int | None = None) -> str:
    """A new id, which sorts by its time: now, unless another time is given."""
    return id_of(now_ms() if at_ms is None else at_ms, os.urandom(10))


def new_uuid() -> str:
    from uuid import uuid4  # takes long to load, and most runs need none

    return str(uuid4())


def chance() -> float:
    """A random number from 0 to 1."""
    return int.from_bytes(os.urandom(7), "big") / 256**7


def random_hex(size: int) -> str:
    """``size`` random bytes, in hexadecimal."""
    return os.urandom(size).hex()
