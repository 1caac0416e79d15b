"""Tells listeners what happens in this turn, and nothing that a CLI replays of earlier ones."""

from __future__ import annotations

from collections.abc import Callable

from segue.core import events as ev
from segue.core.request import Request, Runtime

Listener = Callable[[ev.Event], None]


class Telling:
    """Passes events on. Where a resume replays the history, they wait until this turn's message is heard."""

    def __init__(self, listener: Listener | None, request: Request, runtime: Runtime) -> None:
        self._listener = listener
        self._prompt = request.prompt
        self._waiting = runtime.capabilities.replays and request.start.mode != "fresh"
        self._held: list[ev.Event] = []

    def __call__(self, event: ev.Event) -> None:
        if isinstance(event, ev.Heard):
            self._held.clear()
            self._waiting = self._waiting and event.text.strip() != self._prompt.strip()
        elif self._waiting:
            self._held.append(event)
        elif self._listener is not None:
            self._listener(event)

    def end(self) -> None:
        """The message was never heard in so many words: what came after the last one is this turn."""
        self._waiting = False
        for event in self._held:
            self(event)
