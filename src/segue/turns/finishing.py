"""Writes down what became of a turn, in one transaction: the answer, the session, the pin, the costs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgspec

from segue.agents.base import Agent, Found
from segue.core.keys import new_id
from segue.core.model import Held, Pin
from segue.core.outcome import Failure, Outcome
from segue.core.turn import Sent, Turn, shown_failure, state_of
from segue.core.usage import Context, Usage
from segue.store.records import Claim, LineageRow, Remembered, SessionRow, Settlement, TurnRow
from segue.store.store import Store
from segue.turns.plan import Plan
from segue.turns.settling import Result, settled


def weigh(agent: Agent, plan: Plan, outcome: Outcome, kept: Sequence[Held]) -> Result:
    """What an attempt's outcome means, with a look at the session it left on disk."""
    sessions = agent.sessions
    found: Found | None = None
    if sessions is not None and outcome.session_id is not None:
        found = sessions.look(plan.home, outcome.session_id, plan.request.cwd)
    continued = True
    if sessions is not None and found is not None and plan.anchor is not None:
        continued = sessions.continues(found, plan.anchor)
    return settled(
        plan,
        outcome,
        found,
        kept,
        known_format=sessions is not None,
        continued=continued,
        answer_id=_id(),
        now_ms=_now(),
    )


def finish(
    store: Store,
    row: TurnRow,
    plan: Plan,
    outcome: Outcome,
    result: Result,
    marked: Pin | None,
    turn: Turn,
    lease: Claim | None,
) -> bool:
    """``marked``: what an earlier attempt of the same turn made of the pin, if this one leaves it alone.

    False: somebody took the conversation over, and settles the turn or did; nothing was written.
    """
    now = _now()
    session = _session(plan, outcome, result, now)
    pin = result.pin or marked
    if pin is not None and session is not None:
        pin = msgspec.structs.replace(pin, session=session.id)
    answer = result.answer
    if result.switch_off is not None:
        why = "it did not go on from the place it was told to"
        store.switch_off(plan.runtime.identity, result.switch_off, why, now)
    return store.settle(
        Settlement(
            turn=msgspec.structs.replace(
                row,
                answer=answer.id if answer else None,
                mode=plan.mode,
                state=turn.state,
                told=turn,
                ended_ms=now,
            ),
            lease=lease,
            answer=(answer, outcome.text) if answer is not None else None,
            session=session,
            held=result.held,
            held_from=result.held_from,
            pin=pin,
            retire=_retired(plan, result),
            lineage=_lineage(plan, result, session, now),
            grant=plan.grant,
            remember=Remembered(
                agent=plan.voice.agent,
                account=plan.account,
                model=row.model,
                role=plan.voice.role,
                cwd=str(plan.request.cwd),
            ),
        )
    )


def abandon(
    store: Store,
    row: TurnRow,
    key: str,
    failure: Failure,
    lease: Claim | None,
    calls: int | None = 0,
    pin: Pin | None = None,
) -> bool:
    """A turn of which nothing is known but that it is over: its message stays, to be sent again.

    ``calls``: those of tools that are known of; None: nobody knows. ``pin``: what it makes of the one before,
    if anything. False: it is not ours to say so any more.
    """
    now, outcome = _now(), Outcome(failure=failure)
    turn = Turn(
        run=row.id,
        conversation=key,
        message=row.message,
        agent=row.voice.agent,
        account=row.account or None,
        model=row.model,
        role=row.voice.role or None,
        mode=row.mode or "fresh",
        resumed=False,
        session_id=None,
        sent=Sent(),
        text="",
        state=state_of(outcome),
        status=outcome.status,
        failure=shown_failure(outcome),
        retry_of=row.retry_of,
        usage=Usage(),
        cost_usd=None,
        cost_estimated=False,
        context=Context(),
        model_turns=None,
        tools_run=calls,
        attempts=(),
        duration_ms=now - row.started_ms,
    )
    over = msgspec.structs.replace(row, state=turn.state, told=turn, ended_ms=now)
    return store.settle(Settlement(turn=over, lease=lease, pin=pin))


def _session(plan: Plan, outcome: Outcome, result: Result, now: int) -> SessionRow | None:
    if result.native_id is None or result.pin is None:
        return None
    old = plan.pin
    goes_on = old is not None and plan.mode in ("resume", "branch")
    same = old is not None and not result.moved
    return SessionRow(
        id=old.session if old is not None and same else _id(),
        agent=plan.voice.agent,
        account=plan.account,
        native_id=result.native_id,
        host=plan.host,
        host_id=plan.host_id,
        home=str(plan.home),
        cwd=str(plan.request.cwd),
        path=None,
        conversation=plan.conversation,
        created_ms=now,
        last_used_ms=now,
        parent=old.session if old is not None and goes_on and not same else None,
        how=plan.mode,
        totals=outcome.totals,
        context=outcome.context,
    )


def _retired(plan: Plan, result: Result) -> tuple[tuple[str, str], ...]:
    """The session that the pin pointed to before keeps its id, with the reason why it was left."""
    old = plan.pin
    if old is None or not result.moved or result.native_id is None or old.foreign is not None:
        return ()
    if plan.mode == "resume":
        return ((old.session, "the agent goes on under a new id"),)
    why = [check.detail for check in plan.checks if check.verdict == "fail" and "resume" in check.bars]
    return ((old.session, why[0] if why else f"went on by {plan.mode}"),)


def _lineage(plan: Plan, result: Result, session: SessionRow | None, now: int) -> tuple[LineageRow, ...]:
    if session is None or plan.pin is None or plan.mode not in ("resume", "branch"):
        return ()
    kind = "fork" if plan.pin.foreign is not None else plan.mode
    return (
        LineageRow(child=plan.turn, kind=kind, session=session.id, parent_session=plan.pin.session, ms=now),
    )


def _id() -> str:
    return new_id(_now(), os.urandom(10))


def _now() -> int:
    return time.time_ns() // 1_000_000
