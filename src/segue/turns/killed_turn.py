"""A turn whose Segue was killed: what is known about it from its plan, its stream and the store.

Nothing is guessed: a turn that finished is concluded with its answer, one that was interrupted as such. Used
to settle the turn, and to show what the next turn will do about it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec

from segue.agents.base import Agent, Ended
from segue.core import model
from segue.core.errors import SegueError
from segue.core.events import Permission, Question
from segue.core.json_values import decode
from segue.core.model import Pin
from segue.core.outcome import DOUBT, Exit, Failure, Kind, Outcome
from segue.core.question import open_question
from segue.core.redact import Redactor
from segue.core.request import RunPlace
from segue.core.turn import Saved, Turn
from segue.core.verdicts import say
from segue.core.view import mark_parts
from segue.runner.attempt import marked
from segue.store.records import AttemptRow, Claim, Parking, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import is_near
from segue.turns import run_dir as plans
from segue.turns.adopted_run import AdoptedRun
from segue.turns.observer import Observer
from segue.turns.report import NEVER, added_up, priced, refused, repaid, report
from segue.turns.result import Result
from segue.turns.run_dir import Plan
from segue.turns.settlement import FinishedAttempt, abandon, booked_as_reserved, commit, interpret, note_end

KILLED = -9
PLANNED_NO_MORE = b"{}"
"""What is left of the plan of an attempt once the run was parked."""
WAITED = "Segue was killed while the agent waited for an answer; segue answer can still answer it"
LATER = say("recorded by a later run, because Segue could not record it at the time", "notice.recorded_later")
LOST = "Segue was killed while it ran, and its run directory is lost"
Conclusion = list[tuple[AttemptRow, Plan]]
"""The attempts of a turn that were started and can be read."""


class Traces(msgspec.Struct, frozen=True):
    """What was stored of a turn before its Segue was killed. There may have been more."""

    events: int = 0
    calls: int = 0
    """Tool calls that were not refused."""
    session: str | None = None


class KilledTurn:
    """``claim``: the lease under which it is settled. ``why``: its failure, if known."""

    def __init__(
        self,
        row: TurnRow,
        store: Store,
        here: Observer,
        claim: Claim | None = None,
        why: Failure | None = None,
    ) -> None:
        self.row, self.store, self.here, self.claim, self.why = row, store, here, claim, why
        self.is_near = is_near(row.owner, here.host)
        attempts = store.attempts(row.id)
        # Those from before it was parked are settled.
        self.attempts = [each for each in attempts if each.task != PLANNED_NO_MORE] if row.told else attempts
        self._hold = here.config.queue.on_failure == "hold"

    @property
    def run_dirs(self) -> list[Path]:
        """The directories of its attempts, if they can be found from here."""
        return [Path(attempt.run_dir) for attempt in self.attempts] if self.is_near else []

    def made(self) -> Conclusion:
        if not self.is_near:
            return []
        planned = [(attempt, plans.read_plan(Path(attempt.run_dir))) for attempt in self.attempts]
        started = [
            (attempt, plan) for attempt, plan in planned if plan and (plan.run_dir / "stdout").exists()
        ]
        return [] if planned and planned[-1][1] is None else started

    def cancel_asked(self) -> bool:
        """Whether it was asked to end; false while the store is away."""
        try:
            return self.store.cancel_asked(self.row.id)
        except SegueError:
            return False

    def answered(self) -> set[str]:
        """The questions whose answers the agent was sent."""
        rows = self.store.questions(self.row.id)
        return {each.id for each in rows if each.state == "told" and each.next is None}

    def keep_asked(self, asked: Sequence[Question | Permission]) -> None:
        """Store what the agent still waits for, in case it was not stored before the kill."""
        for event in asked:
            text = msgspec.json.encode(open_question(event, clock.now_ms())).decode()
            self.store.ask(self.row.id, event.id, text)

    def agent(self) -> Agent | None:
        return self.here.agent(self.row.voice.agent)

    def redactor(self, plan: Plan, agent: Agent) -> Redactor:
        return self.here.redactor(plan, agent)

    def outcome(self, attempt: AttemptRow, agent: Agent, orphan: AdoptedRun, redactor: Redactor) -> Outcome:
        """The outcome of its last attempt, whose stream was read."""
        outcome = concluded(attempt, agent, orphan)
        if self.why is not None and outcome.failure is not None and outcome.failure.kind == "killed":
            outcome = msgspec.structs.replace(outcome, failure=self.why)
        return redactor.outcome(outcome)

    def finish(self, made: Conclusion, agent: Agent, outcome: Outcome, seen: Traces | None = None) -> bool:
        """Settle it. ``seen``: what is known about it, if its stream is lost. False: another process did."""
        earlier = [self._finished(agent, plan, noted(attempt)) for attempt, plan in made[:-1]]
        _, plan = made[-1]
        outcome = priced(outcome, plan, self.here.config.prices)
        last = self._last(agent, plan, outcome, seen)
        attempts = [*earlier, last]
        turn = report(
            [(each.plan, each.outcome) for each in attempts],
            saved=Saved(),
            notices=(
                *([] if self.why else [LATER]),
                *last.result.notices,
                *refused([last.outcome]),
                *repaid(plan, outcome),
            ),
            duration_ms=clock.now_ms() - self.row.started_ms,
            retry_of=self.row.retry_of,
        )
        note_end(self.store, last)
        turn = booked_as_reserved(turn, self.store.budgets.reserved(self.row.id))
        turn = added_up(self.row.told, turn)
        parking = self._parking(last, turn)
        turn = msgspec.structs.replace(turn, state="parked") if parking is not None else turn
        return commit(self.store, self.row, attempts, turn, self.claim, parking=parking, hold=self._hold)

    def _parking(self, last: FinishedAttempt, turn: Turn) -> Parking | None:
        """How it is parked, if it met a limit; None: it is over."""
        if turn.failure is None or turn.failure.kind != "rate_limited":
            return None
        from segue.turns.parked_run import later_parking

        return later_parking(self.store, self.row, last, turn, self.here.config)

    def _last(self, agent: Agent, plan: Plan, outcome: Outcome, seen: Traces | None) -> FinishedAttempt:
        standing = {message.id for message in self.store.messages(plan.conversation)}
        if plan.message not in standing:
            return FinishedAttempt(plan, dropped(outcome), Result())
        if seen is None:
            return self._finished(agent, plan, outcome)
        return FinishedAttempt(plan, outcome, self._doubted(agent, plan, outcome, seen))

    def _finished(self, agent: Agent, plan: Plan, outcome: Outcome) -> FinishedAttempt:
        return FinishedAttempt(plan, outcome, self._interpret(agent, plan, outcome))

    def conclude(self, agent: Agent | None) -> bool:
        """Settle it from what was stored. False: another process has taken the conversation over."""
        seen, silent = traces(self.store, self.row.id), self._silent()
        if not self._may_have_run(seen):
            failure = self.why or Failure("killed", silent or NEVER)
            key = self.here.key
            return abandon(self.store, self.row, key, failure, self.claim, hold=self._hold, ran=False)
        failure = self.why or Failure("killed", f"{silent or LOST}; {DOUBT}")
        planned = [
            (attempt, plan) for attempt in self.attempts if (plan := plans.recalled_plan(attempt.task))
        ]
        if silent or agent is None or not planned or planned[-1][0] is not self.attempts[-1]:
            return self._abandon(failure, seen)
        return self.finish(planned, agent, unread(planned[-1][1], seen, failure), seen)

    def _silent(self) -> str | None:
        """The message for a turn that ran where we cannot look; None if we can. Containers may have only the
        machine id of their image in common."""
        there = self.here.host.has(self.row.owner)
        if self.is_near and (there or any(os.path.exists(run_dir) for run_dir in self.run_dirs)):
            return None
        return f"{self.row.host}, where it ran, no longer responds"

    def _may_have_run(self, seen: Traces) -> bool:
        """Whether it may have run. An attempt is stored after its plan, so one without a plan may have."""
        if not self.run_dirs:
            return bool(self.attempts)
        last = self.run_dirs[-1]
        return seen.events > 0 or plans.read_plan(last) is None or (last / "stdout").exists()

    def _abandon(self, failure: Failure, seen: Traces) -> bool:
        """Settle it without a result. Where its session ends is not known, so it must not be cut there."""
        pin = self._pin()
        if pin is not None:
            pin = doubted(pin, failure, seen)
            pin = msgspec.structs.replace(pin, end=None) if self.is_near else pin
        key, calls = self.here.key, seen.calls or None
        return abandon(self.store, self.row, key, failure, self.claim, calls, pin, hold=self._hold)

    def _pin(self) -> Pin | None:
        """The pin that it may have continued: that of the login of its message."""
        row, messages = self.row, self.store.messages(self.row.conversation)
        under = next((message.under for message in messages if message.id == row.message), ())
        for agent, account, login in map(mark_parts, under):
            if (agent, account) == (row.voice.agent, row.account):
                return self.store.pin(row.conversation, row.voice, row.account, login, held=False)
        return None

    def _doubted(self, agent: Agent, plan: Plan, outcome: Outcome, seen: Traces) -> Result:
        """The result if it may have done something: the session is kept up to its current end."""
        at_least = msgspec.structs.replace(outcome, tools_run=max(1, seen.calls))
        result = self._interpret(agent, plan, at_least)
        pin = result.pin or self.store.pin(plan.conversation, plan.voice, plan.account, plan.login)
        if pin is None or outcome.failure is None:
            return result
        return msgspec.structs.replace(result, pin=doubted(pin, outcome.failure, seen))

    def _interpret(self, agent: Agent, plan: Plan, outcome: Outcome) -> Result:
        pin = self.store.pin(plan.conversation, plan.voice, plan.account, plan.login)
        return interpret(agent, plan, outcome, pin.held[: plan.kept_rows] if pin is not None else ())


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
    """The outcome of an attempt whose directory is lost: at best its session is known."""
    start = plan.request.start
    session = seen.session or start.new_id or (start.session if start.mode == "resume" else None)
    return Outcome(failure=failure, session_id=session, tools_run=seen.calls or None, tools_denied=None)


def doubted(pin: Pin, failure: Failure, seen: Traces) -> Pin:
    """The pin after an attempt that may have done anything; known tool calls are recorded."""
    return msgspec.structs.replace(
        pin, ended=model.Ended(failure.kind, seen.calls or None, failure.message[:500])
    )


def concluded(attempt: AttemptRow, agent: Agent, orphan: AdoptedRun) -> Outcome:
    """The outcome if the exit code is unknown: a success if the output is complete, otherwise killed."""
    plan, stderr = orphan.plan, orphan.stderr()
    place = RunPlace(plan.run_dir, plan.home, plan.started_ms)
    ended = Ended(
        request=plan.request,
        runtime=plan.runtime,
        reading=orphan.state,
        exit=Exit(0, orphan.ended_by, stderr),
        evidence=agent.evidence(plan.request, place, plan.home, orphan.state),
        base=plan.base,
        now_ms=clock.now_ms(),
    )
    outcome = agent.conclude(ended)
    whole = orphan.state.end is not None or (outcome.failure is None and outcome.session_id is not None)
    if not whole:
        outcome = agent.conclude(msgspec.structs.replace(ended, exit=Exit(KILLED, orphan.ended_by, stderr)))
    return _explained(marked(outcome, orphan.state), attempt, orphan)


def noted(attempt: AttemptRow) -> Outcome:
    """The stored outcome of an attempt that had ended before."""
    return Outcome(
        failure=_noted(attempt),
        session_id=attempt.native_id,
        usage=attempt.usage,
        cost_usd=attempt.cost_usd,
        tools_run=attempt.tools_run,
        tools_denied=None,
    )


def dropped(outcome: Outcome) -> Outcome:
    """The outcome without its answer, because its message was dropped before it was settled."""
    why = Failure("cancelled", "its message was dropped from the conversation while it ran")
    return msgspec.structs.replace(outcome, text="", failure=why)


def _explained(outcome: Outcome, attempt: AttemptRow, orphan: AdoptedRun) -> Outcome:
    """The outcome with a better failure: what was stored before the kill is more reliable."""
    failure = outcome.failure
    if failure is None:
        return outcome
    if orphan.cancelled:
        failure = Failure("cancelled", "the turn was cancelled")
    elif orphan.ended_by == "cancelled":
        outcome = msgspec.structs.replace(outcome, asked=True)
        failure = Failure("killed", WAITED)
    elif (before := _noted(attempt)) is not None and before.kind != failure.kind:
        failure = before
    return msgspec.structs.replace(outcome, failure=failure)


def _noted(attempt: AttemptRow) -> Failure | None:
    if attempt.outcome in (None, "ok"):
        return None
    return Failure(cast(Kind, attempt.outcome), f"the attempt failed ({attempt.outcome})")
