"""What an attempt amounts to whose Segue was killed, from what is left of it: its stream, its notes."""

from __future__ import annotations

import time
from typing import cast

import msgspec

from segue.agents.base import Agent, Ended
from segue.core import model
from segue.core.decoder import decode
from segue.core.model import Pin
from segue.core.outcome import Exit, Failure, Kind, Outcome
from segue.core.request import Place
from segue.store.records import AttemptRow
from segue.store.store import Store
from segue.turns.attempt import marked
from segue.turns.orphans import Orphan
from segue.turns.plan import Plan

KILLED = -9


class Traces(msgspec.Struct, frozen=True):
    """What the store was told of a turn before its Segue was killed. There may have been more."""

    events: int = 0
    calls: int = 0
    """Of tools, as far as they were not refused."""
    session: str | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    id: str = ""
    denied: bool = False


def traces(store: Store, turn_id: str) -> Traces:
    events = [decode(event, _Event) for _, _, event in store.events(turn_id)]
    denied = sum(event.type == "tool-result" and event.denied for event in events)
    sessions = [event.id for event in events if event.type == "session"]
    calls = sum(event.type == "tool-call" for event in events)
    return Traces(len(events), max(0, calls - denied), sessions[-1] if sessions else None)


def unread(plan: Plan, seen: Traces, failure: Failure) -> Outcome:
    """An attempt whose directory is lost: which session it worked in is known at best."""
    start = plan.request.start
    session = seen.session or start.new_id or (start.session if start.mode == "resume" else None)
    return Outcome(failure=failure, session_id=session, tools_run=seen.calls or None, tools_denied=None)


def doubted(pin: Pin, failure: Failure, seen: Traces) -> Pin:
    """The pin after an attempt of which nobody knows what it did, unless it is known that tools ran."""
    return msgspec.structs.replace(
        pin, ended=model.Ended(failure.kind, seen.calls or None, failure.message[:500])
    )


def concluded(attempt: AttemptRow, agent: Agent, orphan: Orphan) -> Outcome:
    """How it exited nobody knows. It went well if all signs of that are there; else it was killed."""
    plan, stderr = orphan.plan, orphan.stderr()
    place = Place(plan.run_dir, plan.home, plan.started_ms)
    ended = Ended(
        request=plan.request,
        runtime=plan.runtime,
        reading=orphan.reading,
        exit=Exit(0, orphan.ended_by, stderr),
        evidence=agent.evidence(plan.request, place, plan.home, orphan.reading),
        base=plan.base,
        now_ms=time.time_ns() // 1_000_000,
    )
    outcome = agent.conclude(ended)
    whole = orphan.reading.end is not None or (outcome.failure is None and outcome.session_id is not None)
    if not whole:
        outcome = agent.conclude(msgspec.structs.replace(ended, exit=Exit(KILLED, orphan.ended_by, stderr)))
    return _explained(marked(outcome, orphan.reading), attempt, orphan)


def noted(attempt: AttemptRow) -> Outcome:
    """An attempt that had ended before: what was written down of it."""
    return Outcome(
        failure=_noted(attempt),
        session_id=attempt.native_id,
        usage=attempt.usage,
        cost_usd=attempt.cost_usd,
        tools_run=attempt.tools_run,
    )


def dropped(outcome: Outcome) -> Outcome:
    """Its message was taken out of the conversation before it was settled: so is the answer."""
    why = Failure("cancelled", "its message was dropped from the conversation while it ran")
    return msgspec.structs.replace(outcome, text="", failure=why)


def _explained(outcome: Outcome, attempt: AttemptRow, orphan: Orphan) -> Outcome:
    """What was written down before the kill is known better than what can be told afterwards."""
    failure = outcome.failure
    if failure is None:
        return outcome
    if orphan.ended_by == "cancelled":
        failure = Failure("cancelled", "it asked something when nobody was left to answer, and was stopped")
    elif (before := _noted(attempt)) is not None and before.kind != failure.kind:
        failure = before
    return msgspec.structs.replace(outcome, failure=failure)


def _noted(attempt: AttemptRow) -> Failure | None:
    if attempt.outcome in (None, "ok"):
        return None
    return Failure(cast(Kind, attempt.outcome), f"the attempt failed ({attempt.outcome})")
