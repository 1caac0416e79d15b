"""A line on stderr that shows how far long work has come; only on a terminal, and only if it is long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S, EVERY_S = 0.5, 0.1
BAR = 30


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Call what it gives with how much is done of ``total``."""
    out, began = sys.stderr, time.monotonic()
    last = began + PATIENCE_S - EVERY_S
    shown = False

    def went(done: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - last < EVERY_S:
            return
        last, shown = now, True
        share = min(done / total, 1.0) if total else 1.0
        bar = "█" * round(share * BAR)
        out.write(f"\r{what} {bar:░<{BAR}} {share:4.0%}")
        out.flush()

    try:
        yield went if out.isatty() else _nobody
    finally:
        if shown:
            out.write("\r\x1b[K")
            out.flush()


def _nobody(_: int) -> None:
    """Nobody looks."""
