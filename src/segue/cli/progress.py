"""A line on stderr that shows how far long work has come; only on a terminal, and only if it is long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from segue.cli.output import Canvas
from segue.cli.widths import fitted

PATIENCE_S, EVERY_S = 0.5, 0.1
BAR = 30


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Call what it gives with how much is done of ``total``."""
    canvas = Canvas(sys.stderr)
    last = time.monotonic() + PATIENCE_S - EVERY_S

    def went(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < EVERY_S:
            return
        last = now
        share = min(done / total, 1.0) if total else 1.0
        bar = "█" * round(share * BAR)
        canvas.draw([fitted(f"{what} {bar:░<{BAR}} {share:4.0%}", canvas.width - 1)])

    try:
        yield went if sys.stderr.isatty() else _nobody
    finally:
        canvas.erase()
        canvas.flush()


def _nobody(_: int) -> None:
    """Nobody looks."""
