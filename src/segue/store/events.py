"""What happened in a turn, event by event; and what was found not to work, runtime by runtime."""

from __future__ import annotations

from collections.abc import Sequence

from segue.store.part import Part
from segue.store.queries import Queries

_SQL = Queries("events")
FORGET_AT_ONCE = 2_000
"""So that nobody waits long, however much there is to forget."""


class Events(Part):
    def record(self, turn_id: str, rows: Sequence[tuple[int, int, str]]) -> None:
        """Each: its number in the turn, the time, the event as JSON. One that is there already stays."""
        named = [{"turn": turn_id, "seq": seq, "ms": ms, "event": event} for seq, ms, event in rows]
        self.db.many(_SQL.record, named)

    def events(self, turn_id: str, after: int = 0) -> list[tuple[int, int, str]]:
        """Those with a number above ``after``, in order."""
        return [(seq, ms, event) for seq, ms, event in self.db.all(_SQL.after, turn=turn_id, seq=after)]

    def tool_events(self, answers: Sequence[str]) -> dict[str, list[str]]:
        """By answer: the calls and results of tools in the turn that gave it, in order, as JSON."""
        found: dict[str, list[str]] = {}
        for answer, event in self.db.among(_SQL.of_tools, answers):
            found.setdefault(answer, []).append(event)
        return found

    def forget_events(self, before_ms: int) -> int:
        """Drop what is older of turns that are over, but for what tools did; how many, some at a time."""
        return self.db.run(_SQL.forget, before_ms=before_ms, count=FORGET_AT_ONCE)

    def switch_off(self, runtime: str, capability: str, reason: str, ms: int) -> None:
        """This program does not do what it says it can."""
        self.db.run(_SQL.switch_off, runtime=runtime, capability=capability, reason=reason, ms=ms)

    def switched_off(self, runtime: str) -> dict[str, str]:
        """The capabilities that are not to be used, each with the reason."""
        return dict(self.db.all(_SQL.switched_off, runtime=runtime))
