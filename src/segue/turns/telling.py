"""Tells listeners what happens in this turn, and nothing that a CLI replays of earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from segue.core import events as ev
from segue.core.request import Request, Runtime

Listener = Callable[[ev.Event], None]
T = TypeVar("T")


class Guarded(Generic[T]):
    """A function of the caller's. If it raises, that is logged and it is called no more; all else goes on."""

    def __init__(self, name: str, listener: Callable[[T], None] | None) -> None:
        self._name, self._listener = name, listener
        self.failed: Exception | None = None

    def __call__(self, what: T) -> None:
        if self._listener is None:
            return
        try:
            self._listener(what)
        except Exception as error:
            self._listener, self.failed = None, error
            import logging  # nobody waits for it but who needs it

            log = logging.getLogger("segue")
            log.warning("%s raised %r and is not called any more in this turn", self._name, error)
            log.debug("where %s raised it", self._name, exc_info=error)


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
