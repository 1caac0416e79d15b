"""Takes secrets out of a stream of events, also those that come in fragments."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.events import Compacted, Event, Session, TextDelta, UsageReport
from segue.core.redact import Redactor

_FIGURES = (Session, UsageReport, Compacted)
"""Events without words of anybody."""


class Cleaning:
    """Call it with each event and take what may be shown. What may be a secret's beginning waits."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waiting = ""

    def __call__(self, event: Event, line: bytes | None = None) -> Sequence[Event]:
        """``line``: what the event was read from. Most hold nothing, and that is quickly seen."""
        if isinstance(event, TextDelta):
            return self._fragment(event.text)
        if not isinstance(event, _FIGURES) and (line is None or self._redactor.suspects(line, event)):
            event = self._redactor.event(event)
        return (*self.rest(), event) if self._waiting else (event,)

    def rest(self) -> list[Event]:
        """What still waits: no more fragments follow it."""
        waiting, self._waiting = self._waiting, ""
        return [TextDelta(waiting)] if waiting else []

    def _fragment(self, text: str) -> list[Event]:
        clean = self._redactor.spoken(self._waiting + text)
        safe = len(clean) - self._redactor.beginning(clean)
        self._waiting = clean[safe:]
        return [TextDelta(clean[:safe])] if safe else []
