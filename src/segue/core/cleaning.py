"""Takes secrets out of a stream of events, also those that come in fragments."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.events import Event, TextDelta
from segue.core.redact import Redactor


class Cleaning:
    """Call it with each event and take what may be shown. What may be a secret's beginning waits."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waiting = ""

    def __call__(self, event: Event, suspect: bool = True) -> Sequence[Event]:
        """``suspect`` false: the line the event was read from is known to be clean."""
        if isinstance(event, TextDelta):
            return self._fragment(event.text)
        shown = self._redactor.event(event) if suspect else event
        return (*self.rest(), shown) if self._waiting else (shown,)

    def rest(self) -> list[Event]:
        """What still waits: no more fragments follow it."""
        waiting, self._waiting = self._waiting, ""
        return [TextDelta(waiting)] if waiting else []

    def _fragment(self, text: str) -> list[Event]:
        clean = self._redactor.spoken(self._waiting + text)
        safe = len(clean) - self._redactor.beginning(clean)
        self._waiting = clean[safe:]
        return [TextDelta(clean[:safe])] if safe else []
