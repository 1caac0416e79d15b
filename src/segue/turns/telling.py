"""Tells listeners what happens in this turn, and nothing that a CLI replays of earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from segue.core import events as ev
from segue.core.request import Request, Runtime

Listener = Callable[[ev.Event], None]
T = TypeVar("T")


class Guard:
    """Looks after a function of the caller's: once it has raised, that is logged and it is called no more."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.failed: Exception | None = None

    def note(self, error: Exception) -> None:
        self.failed = error
        import logging  # nobody waits for it but who needs it

        log = logging.getLogger("segue")
        log.warning("%s raised %r and is not called any more in this turn", self._name, error)
        log.debug("where %s raised it", self._name, exc_info=error)

    def told(self) -> str | None:
        """What the turn says of it, if there is anything to say."""
        if self.failed is None:
            return None
        return f"{self._name} raised {self.failed!r} and was called no more"[:300]


class Guarded(Guard, Generic[T]):
    """One that is told something, and says nothing."""

    def __init__(self, name: str, listener: Callable[[T], None] | None) -> None:
        super().__init__(name)
        self._listener = listener

    def __call__(self, what: T) -> None:
        if self._listener is None or self.failed is not None:
            return
        try:
            self._listener(what)
        except Exception as error:
            self.note(error)


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
