"""Chains: all turns that came out of each other, from any one of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.core.turn import LineageKind, Mode, State
from segue.core.usage import Usage
from segue.store.database import Queries, Section

_SQL = Queries("chains")


class _Told(msgspec.Struct, frozen=True):
    """What is needed of a turn as it was reported."""

    class Failure(msgspec.Struct, frozen=True):
        kind: str = ""

    failure: Failure | None = None
    duration_ms: int | None = None
    model: str | None = None


class ChainRow(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of a chain. ``parents``: the turns that it came from, and how."""

    run: str
    conversation: str
    flow: str | None
    step: str | None
    role: str
    tier: int | None
    agent: str
    model: str | None
    mode: Mode | None
    state: State
    failure: str | None
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    duration_ms: int | None
    started_ms: int
    parents: tuple[tuple[str, LineageKind], ...] = ()


class Chains(Section):
    """Each method is one transaction."""

    def runs_of_session(self, native_id: str) -> list[str]:
        """The turns that wrote to a native session, or continued it."""
        return [run for (run,) in self._db.all(_SQL.runs_of_session, session=native_id)]

    def runs_of_conversation(self, conversation_id: str) -> list[str]:
        return [run for (run,) in self._db.all(_SQL.runs_of_conversation, conversation=conversation_id)]

    def chain(self, runs: Sequence[str]) -> list[ChainRow]:
        """The whole chains of these turns, the oldest first."""
        with self._db.reading():
            rows = {row[0]: row for row in self._db.among(_SQL.chain, runs)}
            came = self._db.among(_SQL.parents, list(rows))
        parents: dict[str, list[tuple[str, LineageKind]]] = {}
        for child, parent, kind in came:
            parents.setdefault(child, []).append((parent, kind))
        found = []
        for row in rows.values():
            run, key, flow, step, role, tier, agent, model, mode, state, retry_of, *rest = row
            *used, cost_usd, estimated, started_ms, told = rest
            report = msgspec.json.decode(told, type=_Told) if told else _Told()
            if retry_of is not None and (retry_of, "retry") not in parents.get(run, ()):
                parents.setdefault(run, []).append((retry_of, "retry"))
            found.append(
                ChainRow(
                    run=run,
                    conversation=key,
                    flow=flow,
                    step=step,
                    role=role,
                    tier=tier,
                    agent=agent,
                    model=report.model or model,
                    mode=mode,
                    state=state,
                    failure=report.failure.kind if report.failure is not None else None,
                    usage=Usage(*used),
                    cost_usd=cost_usd,
                    cost_estimated=bool(estimated),
                    duration_ms=report.duration_ms,
                    started_ms=started_ms,
                    parents=tuple(parents.get(run, ())),
                )
            )
        return sorted(found, key=lambda each: (each.started_ms, each.run))
