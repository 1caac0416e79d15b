"""A run that an engine drives, and after it its retries: each has an id of its own."""

from __future__ import annotations

from collections.abc import Callable

from segue.app.ready_turn import Cancel, Listener
from segue.core import events as ev

Watcher = Callable[[str, ev.Event | None], None]
"""Is called with the run and each of its events, as they come; with None when it has ended."""


class DrivenRun:
    """``running``: the runs of the engine, each with what cancels it. Use it as a context while it runs."""

    def __init__(
        self,
        run: str,
        running: dict[str, Cancel],
        watch: Watcher,
        listener: Listener | None = None,
    ) -> None:
        self.run, self.cancel = run, Cancel()
        self._running, self._watch, self._listener = running, watch, listener

    def __enter__(self) -> None:
        self._running[self.run] = self.cancel

    def __exit__(self, *_: object) -> None:
        self._left()

    def retried_as(self, run: str) -> None:
        """What follows belongs to another run of the same message."""
        self._left()
        self.run = run
        self._running[run] = self.cancel

    def heard(self, event: ev.Event) -> None:
        self._watch(self.run, event)
        if self._listener is not None:
            self._listener(event)

    def _left(self) -> None:
        self._running.pop(self.run, None)
        self._watch(self.run, None)
