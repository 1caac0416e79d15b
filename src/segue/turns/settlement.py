"""Settles a turn: interprets the outcome of its attempts, and stores the result.

Everything is written in one transaction: the answer, the session, the pin, the costs. A killed turn is
settled in the same way when it is recovered.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.agents.base import Agent, StoredSession
from segue.core.budget import booked
from segue.core.model import Held, Pin
from segue.core.outcome import BROKEN_OFF, Failure, Outcome
from segue.core.turn import Mode, Turn
from segue.store.records import Claim, Parking, Remembered, SessionRow, Settlement, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.descent import descent, unplanned
from segue.turns.report import TurnFacts, added_up, build_turn, seen_limits
from segue.turns.result import Result, result_of
from segue.turns.run_dir import Plan

STRAYED = "it did not continue from the place it was told to"


class FinishedAttempt(msgspec.Struct, frozen=True):
    """An attempt that is over: its plan, its outcome, and what that means."""

    plan: Plan
    outcome: Outcome
    result: Result
    lower: Mode | None = None
    """The mode for a second attempt, if the turn has to step down."""


def interpret(agent: Agent, plan: Plan, outcome: Outcome, kept: Sequence[Held]) -> Result:
    """What an attempt's outcome means, considering the session that it left on disk."""
    session_format = agent.format
    stored: StoredSession | None = None
    end: str | None = None
    continued = True
    if session_format is not None and outcome.session_id is not None:
        stored = session_format.find(plan.home, outcome.session_id, plan.request.cwd)
        end = session_format.end(stored) if stored is not None else None
    if session_format is not None and stored is not None and plan.anchor is not None:
        continued = session_format.continues(stored, plan.anchor)
    return result_of(
        plan,
        outcome,
        stored,
        kept,
        end=end,
        known_format=session_format is not None,
        continued=continued,
        answer_id=clock.new_id(),
        now_ms=clock.now_ms(),
    )


def note_end(store: Store, attempt: FinishedAttempt) -> None:
    """Store how an attempt ended, in case Segue is killed before the turn is settled."""
    outcome = attempt.outcome
    store.attempted(
        attempt.plan.attempt,
        outcome="ok" if outcome.failure is None else outcome.failure.kind,
        native_id=outcome.session_id,
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        tools_run=outcome.tools_run,
        ended_ms=clock.now_ms(),
    )


def commit(
    store: Store,
    row: TurnRow,
    attempts: Sequence[FinishedAttempt],
    turn: Turn,
    lease: Claim | None,
    *,
    parking: Parking | None = None,
    hold: bool = False,
) -> bool:
    """Store the turn as its last attempt left it. ``parking``, ``hold``: as in ``Settlement``.

    False: another process took the conversation over and settles the turn; nothing was written.
    """
    last, now_ms = attempts[-1], clock.now_ms()
    plan, outcome, result = last.plan, last.outcome, last.result
    session = _session(plan, outcome, result, now_ms)
    pin = result.pin or attempts[0].result.pin  # an earlier attempt may have changed it
    pin = msgspec.structs.replace(pin, session=session.id) if pin and session else pin
    answer, ended = result.answer, _ended(row, turn, now_ms)
    if result.switch_off is not None:
        store.switch_off(plan.runtime.identity, result.switch_off, STRAYED, now_ms)
    return store.settle(
        Settlement(
            turn=msgspec.structs.replace(ended, mode=plan.mode, answer=answer.id if answer else None),
            parking=parking,
            hold=hold,
            lease=lease,
            answer=(answer, outcome.text) if answer is not None else None,
            session=session,
            held=result.held,
            held_from=result.held_from,
            pin=pin,
            retire=_retired(plan, result),
            lineage=descent(store, plan, session, now_ms, refused=len(attempts) > 1),
            grant=plan.grant,
            remember=_remembered(row, plan),
            limits=(plan.login or "", seen_limits([(each.plan, each.outcome) for each in attempts], now_ms)),
        )
    )


def booked_as_reserved(turn: Turn, reserved: float | None) -> Turn:
    """The turn; if it was broken off, and its cost cannot be known any more, it is what was reserved, as an
    estimate."""
    broken_off = turn.failure is not None and turn.failure.kind in BROKEN_OFF
    cost = booked(turn.cost_usd, reserved, broken_off)
    if cost == turn.cost_usd:
        return turn
    return msgspec.structs.replace(turn, cost_usd=cost, cost_estimated=True)


def abandon(
    store: Store,
    row: TurnRow,
    key: str,
    failure: Failure,
    lease: Claim | None,
    calls: int | None = 0,
    pin: Pin | None = None,
    *,
    hold: bool = False,
    ran: bool = True,
) -> bool:
    """Settle a turn without a known result: its message stays, and is sent with the next turn.

    ``calls``: the known tool calls; None: unknown. ``pin``: the new pin, if it changes. ``ran``: its agent
    may have been started. ``hold``: as in
    ``Settlement``. False: another process settles it.
    """
    now_ms = clock.now_ms()
    outcome = Outcome(failure=failure, tools_run=calls, tools_denied=None)
    turn = build_turn(TurnFacts.of_row(row, key), outcome, duration_ms=now_ms - row.started_ms)
    turn = booked_as_reserved(turn, store.budgets.reserved(row.id) if ran else None)
    ended = _ended(row, added_up(row.told, turn), now_ms)
    lineage = unplanned(store, row, now_ms)
    return store.settle(Settlement(turn=ended, hold=hold, lease=lease, pin=pin, lineage=lineage))


def _ended(row: TurnRow, turn: Turn, now_ms: int) -> TurnRow:
    return msgspec.structs.replace(row, state=turn.state, told=turn, ended_ms=now_ms)


def _remembered(row: TurnRow, plan: Plan) -> Remembered:
    """What the next turn of the conversation uses unless told otherwise."""
    return Remembered(
        agent=plan.voice.agent,
        account=plan.account,
        model=row.model,
        role=plan.voice.role,
        cwd=str(plan.request.cwd),
    )


def _session(plan: Plan, outcome: Outcome, result: Result, now_ms: int) -> SessionRow | None:
    if result.native_id is None or result.pin is None:
        return None
    old = plan.pin
    continued = old is not None and plan.mode in ("resume", "branch")
    same = old is not None and not result.moved
    return SessionRow(
        id=old.session if old is not None and same else clock.new_id(),
        agent=plan.voice.agent,
        account=plan.account,
        native_id=result.native_id,
        host=plan.host,
        host_id=plan.host_id,
        home=str(plan.home),
        cwd=str(plan.request.cwd),
        path=None,
        conversation=plan.conversation,
        created_ms=now_ms,
        last_used_ms=now_ms,
        parent=old.session if old is not None and continued and not same else None,
        how=plan.mode,
        totals=outcome.totals,
        context=outcome.context,
    )


def _retired(plan: Plan, result: Result) -> tuple[tuple[str, str], ...]:
    """The session that the pin pointed to before, with the reason why it was replaced."""
    old = plan.pin
    if old is None or not result.moved or result.native_id is None or old.foreign is not None:
        return ()
    if plan.mode == "resume":
        return ((old.session, "the agent continues under a new id"),)
    why = [check.detail for check in plan.checks if check.verdict == "fail" and "resume" in check.bars]
    return ((old.session, why[0] if why else f"continued by {plan.mode}"),)
