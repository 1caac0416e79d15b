"""What the turns of flows did: their tool calls, and the actions that cooldowns count."""

from __future__ import annotations

from collections.abc import Mapping

from segue.store.database import Queries
from segue.store.lease_rows import Leases

_SQL = Queries("flow_actions")


class FlowActions(Leases):
    """Each method is one transaction."""

    def tool_events_of(self, flow_id: str, step: str) -> list[str]:
        """The tool calls and results of all turns of a step, in order, as JSON."""
        return [event for (event,) in self._db.all(_SQL.tool_events, flow=flow_id, step=step)]

    def usage_events(self, run: str) -> list[str]:
        """What a turn has reported about its usage so far, in order, as JSON."""
        return [event for (event,) in self._db.all(_SQL.usage_events, turn=run)]

    def note_actions(
        self, flow_id: str, step: str, scope: str, actions: Mapping[tuple[str, str], int], now_ms: int
    ) -> None:
        """How often a step did something, by (kind, key). What is noted stays."""
        rows = [
            {"flow": flow_id, "step": step, "scope": scope, "ms": now_ms}
            | {"kind": kind, "key": key, "count": count}
            for (kind, key), count in actions.items()
        ]
        self._db.many(_SQL.note, rows)

    def actions_since(self, scope: str, since_ms: int) -> list[tuple[str, str, int, int, str, str]]:
        """What was done since then: kind, key, how often, when, in which step of which flow. The oldest
        first."""
        rows = self._db.all(_SQL.since, scope=scope, since_ms=since_ms)
        return [(kind, key, count, ms, flow, step) for kind, key, count, ms, flow, step in rows]
