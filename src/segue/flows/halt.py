"""How a flow is left before its end: it waits, somebody stops it, or another process has it.

These are not errors: like a cancelled task, they pass through ``except Exception`` in a flow's function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from segue.core.flow import Needs

StopKind = Literal["pause", "cancel", "leave"]
"""``leave``: the process ends, and the next one goes on. A running turn is left alone."""


class Halt(BaseException):
    """The function is left, and entered again later or not at all."""


class Waiting(Halt):
    """It waits for an answer, or for a time: no process and no lease is needed for that."""

    def __init__(self, needs: Needs | None = None, wake_ms: int | None = None) -> None:
        super().__init__(needs or f"until {wake_ms}")
        self.needs, self.wake_ms = needs, wake_ms


class Stopped(Halt):
    """Somebody wants it to stop."""

    def __init__(self, kind: StopKind) -> None:
        super().__init__(kind)
        self.kind = kind


class Lost(Halt):
    """Another process runs it now. Nothing more may be written."""


class Stop:
    """The wish to stop a flow, from any thread. What runs can be told of it."""

    def __init__(self) -> None:
        self.kind: StopKind | None = None
        self.lost = False
        self._lock = threading.Lock()
        self._told: list[Callable[[], object]] = []

    def ask(self, kind: StopKind) -> None:
        """Stop at the next step. To cancel it, what runs is ended now; that wish stays."""
        with self._lock:
            if self.kind == "cancel" or self.kind == kind:
                return
            self.kind = kind
            told = list(self._told) if kind == "cancel" else []
        for each in told:
            each()

    def now(self) -> None:
        """End what runs; whoever waits for it gives up."""
        with self._lock:
            told = list(self._told)
        for each in told:
            each()

    def lose(self) -> None:
        """Another process has taken the flow over."""
        self.lost = True

    def check(self) -> None:
        """Raise if the flow has to stop."""
        if self.lost:
            raise Lost
        if self.kind is not None:
            raise Stopped(self.kind)

    def add(self, end: Callable[[], object]) -> None:
        """``end``: ends something that runs. It is called at once if the flow was cancelled before."""
        with self._lock:
            self._told.append(end)
            late = self.kind == "cancel"
        if late:
            end()

    def remove(self, end: Callable[[], object]) -> None:
        with self._lock:
            self._told.remove(end)
