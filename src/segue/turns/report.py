"""The turn as it is reported: its outcome with costs and advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from segue.core.environment import login_hint
from segue.core.limits import merged, paid_otherwise, shown, with_refusal
from segue.core.model import Voice
from segue.core.outcome import Failure, Outcome
from segue.core.prices import price_for
from segue.core.request import Terms
from segue.core.tools import DeniedTools
from segue.core.turn import (
    AttemptShown,
    Check,
    Mode,
    RungShown,
    Saved,
    Sent,
    Transport,
    Turn,
    next_command,
    shown_failure,
    state_of,
    status_of,
)
from segue.core.usage import Limit, Pays, Price, Usage
from segue.core.verdicts import Said, say, with_notices
from segue.store.records import TurnRow
from segue.system import clock
from segue.turns.prepare import Prepared
from segue.turns.run_dir import Plan

Made = Sequence[tuple[Plan, Outcome]]
"""The attempts of a turn, each with its outcome."""
NEVER = "Segue was killed before the agent was started"
LEFT_ALONE = (
    "it is not known whether it did anything, so it was not run a second time with the conversation as text"
)


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a turn before its outcome."""

    run: str
    key: str
    message: str | None
    voice: Voice
    account: str
    model: str | None
    mode: Mode = "fresh"
    terms: Terms = Terms()
    checks: tuple[Check, ...] = ()
    resumed_from: str | None = None
    sent: Sent = Sent()
    predicted_usd: float | None = None
    retry_of: str | None = None
    transport: Transport = "process"
    rungs: tuple[RungShown, ...] = ()
    version: str | None = None
    """Of the CLI that ran it."""

    @classmethod
    def of_plan(cls, plan: Plan, retry_of: str | None) -> TurnFacts:
        native = plan.mode in ("resume", "branch")
        return cls(
            run=plan.turn,
            key=plan.key,
            message=plan.message,
            voice=plan.voice,
            account=plan.account,
            model=plan.model,
            mode=plan.mode,
            terms=plan.terms,
            checks=plan.checks,
            resumed_from=plan.pin.native_id if native and plan.pin is not None else None,
            sent=plan.sent,
            predicted_usd=plan.predicted_usd,
            retry_of=retry_of,
            transport=plan.transport,
            rungs=plan.rungs,
            version=plan.runtime.version,
        )

    @classmethod
    def of_row(cls, row: TurnRow, key: str) -> TurnFacts:
        return cls(
            run=row.id,
            key=key,
            message=row.message,
            voice=row.voice,
            account=row.account,
            model=row.model,
            mode=row.mode or "fresh",
            retry_of=row.retry_of,
        )

    @classmethod
    def of_prepared(cls, prepared: Prepared, row: TurnRow | None) -> TurnFacts:
        return cls(
            run=prepared.run,
            key=prepared.conversation.key,
            message=row.message if row is not None else None,
            voice=prepared.voice,
            account=prepared.account_name,
            model=prepared.request.model,
            terms=prepared.terms(),
            retry_of=row.retry_of if row is not None else None,
            transport=prepared.transport,
        )


def build_turn(
    facts: TurnFacts,
    outcome: Outcome,
    made: Made = (),
    *,
    duration_ms: int,
    saved: Saved | None = None,
    notices: Sequence[Said] = (),
    way_on: str | None = None,
) -> Turn:
    """The turn as ``segue run --json`` prints it: the outcome, and the sum of all attempts' costs.

    ``way_on``: the command that continues after a failure.
    """
    outcomes = [each for _, each in made]
    turn = msgspec.structs.replace(
        _bare_turn(facts, outcome, duration_ms),
        next=way_on,
        usage=sum((each.usage for each in outcomes), Usage()),
        cost_usd=_sum(each.cost_usd for each in outcomes),
        cost_estimated=any(each.cost_estimated for each in outcomes),
        saved=saved or Saved(),
        tools_run=_tools_run(outcomes or [outcome]),
        tools_denied=_denied(outcomes or [outcome]),
        attempts=tuple(_shown(*each) for each in made),
    )
    return with_notices(turn, notices)


def _bare_turn(facts: TurnFacts, outcome: Outcome, duration_ms: int) -> Turn:
    """The turn without the totals of its attempts."""
    return Turn(
        run=facts.run,
        conversation=facts.key,
        message=facts.message,
        agent=facts.voice.agent,
        account=facts.account or None,
        model=outcome.model or facts.model,
        role=facts.voice.role or None,
        terms=facts.terms,
        mode=facts.mode,
        resumed=facts.resumed_from is not None,
        why=facts.checks,
        session_id=outcome.session_id,
        resumed_from=facts.resumed_from,
        sent=facts.sent,
        text=outcome.text,
        state=state_of(outcome),
        status=outcome.status,
        failure=shown_failure(outcome),
        retry_of=facts.retry_of,
        transport=facts.transport,
        usage=Usage(),
        cost_usd=None,
        cost_estimated=False,
        predicted_usd=facts.predicted_usd,
        context=outcome.context,
        model_turns=outcome.model_turns,
        tools_run=outcome.tools_run,
        attempts=(),
        duration_ms=duration_ms,
        rungs=facts.rungs,
        agent_version=facts.version,
    )


def report(
    made: Made, *, saved: Saved, notices: Sequence[Said], duration_ms: int, retry_of: str | None
) -> Turn:
    """The report of a turn that had attempts."""
    plan, outcome = made[-1]
    tools = _tools_run([each for _, each in made])
    turn = build_turn(
        TurnFacts.of_plan(plan, retry_of),
        outcome,
        made,
        duration_ms=duration_ms,
        saved=saved,
        notices=notices,
        way_on=next_command(plan.key, plan.message, outcome.failure, tools != 0, plan.named),
    )
    now_ms = clock.now_ms()
    known = merged(plan.limits, seen_limits(made, now_ms))
    return msgspec.structs.replace(turn, limits=shown(known, now_ms), pays=payer(plan, outcome))


def seen_limits(made: Made, now_ms: int) -> tuple[Limit, ...]:
    """What the attempts told about usage limits."""
    return tuple(limit for _, outcome in made for limit in with_refusal(outcome, now_ms))


def payer(plan: Plan, outcome: Outcome) -> Pays:
    """What paid: what the CLI said, unless a cloud was chosen, which it may not say."""
    return plan.pays if plan.pays == "cloud" or outcome.pays is None else outcome.pays


def repaid(plan: Plan, outcome: Outcome) -> tuple[Said, ...]:
    """The notice that something else paid than before, if so."""
    change = paid_otherwise(plan.paid, payer(plan, outcome))
    return (change,) if change is not None else ()


def added_up(earlier: Turn | None, later: Turn) -> Turn:
    """One report of a run that was parked in between: what it did and cost before counts, too."""
    if earlier is None:
        return later
    known = earlier.tools_run is not None and later.tools_run is not None
    denied = [each for each in (earlier.tools_denied, later.tools_denied) if each is not None]
    return msgspec.structs.replace(
        later,
        session_id=later.session_id or earlier.session_id,
        usage=earlier.usage + later.usage,
        cost_usd=_sum((earlier.cost_usd, later.cost_usd)),
        cost_estimated=earlier.cost_estimated or later.cost_estimated,
        model_turns=(earlier.model_turns or 0) + later.model_turns if later.model_turns is not None else None,
        tools_run=(earlier.tools_run or 0) + (later.tools_run or 0) if known else None,
        tools_denied=sum(denied, DeniedTools()) if len(denied) == 2 else None,
        attempts=(*earlier.attempts, *later.attempts),
        duration_ms=earlier.duration_ms + later.duration_ms,
    )


def report_withdrawn(prepared: Prepared, failure: Failure, duration_ms: int, row: TurnRow | None) -> Turn:
    """The report of a turn that never began. ``row``: its stored row, if there is one."""
    facts = TurnFacts.of_prepared(prepared, row)
    way_on = next_command(facts.key, facts.message, failure, False, prepared.named)
    turn = build_turn(facts, Outcome(failure=failure), duration_ms=duration_ms, way_on=way_on)
    return msgspec.structs.replace(turn, state="withdrawn", status="failed")


def report_row(row: TurnRow, key: str, why: Failure | None = None) -> Turn:
    """The report of a settled turn without one. ``why`` None: its process died before it began."""
    ended_ms = row.started_ms if row.ended_ms is None else row.ended_ms
    failure = why or Failure("cancelled" if row.state == "cancelled" else "killed", NEVER)
    turn = build_turn(
        TurnFacts.of_row(row, key),
        Outcome(failure=failure),
        duration_ms=ended_ms - row.started_ms,
        way_on=next_command(key, row.message, failure, False),
    )
    return msgspec.structs.replace(turn, state=row.state, status=status_of(row.state) or "failed")


def priced(outcome: Outcome, plan: Plan, prices: Mapping[str, Price]) -> Outcome:
    """The outcome with an estimated cost, if the CLI reports none."""
    model = outcome.model or plan.model
    if outcome.cost_usd is not None or model is None:
        return outcome
    price = price_for(model, prices)
    cost = price.cost(outcome.usage) if price is not None else None
    return msgspec.structs.replace(outcome, cost_usd=cost, cost_estimated=cost is not None)


def advised(outcome: Outcome, prepared: Prepared) -> Outcome:
    """After a failed login with a withheld key, the failure says so, and how to pass the key."""
    failure = outcome.failure
    if failure is None or failure.kind != "auth":
        return outcome
    withheld = [key for key in prepared.child.withheld if key in prepared.agent.facts.keys]
    hint = login_hint(prepared.agent.facts.label, withheld, prepared.account, prepared.agent.facts.name)
    if hint is None:
        return outcome
    advice = Failure("auth", f"{failure.message} ({hint})", failure.reason, failure.until, failure.status)
    return msgspec.structs.replace(outcome, failure=advice)


def left_alone(outcome: Outcome) -> Outcome:
    """The failure with the reason why the turn did not step down: the attempt may have done something."""
    failure = outcome.failure
    assert failure is not None
    message = f"{failure.message}; {LEFT_ALONE}"
    return msgspec.structs.replace(outcome, failure=msgspec.structs.replace(failure, message=message))


def refused(attempts: Sequence[Outcome]) -> tuple[Said, ...]:
    """The notice that tools were refused, if any were."""
    denied = _denied(attempts)
    if denied is None or not denied.count:
        return ()
    text = f"{denied} (see --permission and --allow-tool)"
    if not denied.names:
        return (say(text, "notice.denied_unnamed", count=denied.count),)
    return (say(text, "notice.denied", count=denied.count, names=", ".join(denied.names)),)


def failed_if_denied(turn: Turn, cwd: str | None) -> Turn:
    """A success becomes a failure if a tool was refused. Its answer stays: the agent continues from there.

    ``cwd``: the directory, if commands have to name it.
    """
    denied = turn.tools_denied
    if turn.failure is not None or denied is None or not denied.count:
        return turn
    failure = Failure("tool_denied", str(denied))
    return msgspec.structs.replace(
        turn,
        state="failed",
        status="failed",
        failure=shown_failure(Outcome(failure=failure)),
        next=next_command(turn.conversation, turn.message, failure, turn.tools_run != 0, cwd),
    )


def _tools_run(attempts: Sequence[Outcome]) -> int | None:
    """The tool calls of all attempts; None: unknown."""
    calls = [each.tools_run for each in attempts]
    return None if None in calls else sum(filter(None, calls))


def _denied(attempts: Sequence[Outcome]) -> DeniedTools | None:
    """The refused calls of all attempts; None: unknown."""
    denied = [each.tools_denied for each in attempts if each.tools_denied is not None]
    return sum(denied, DeniedTools()) if len(denied) == len(attempts) else None


def _shown(plan: Plan, outcome: Outcome) -> AttemptShown:
    ended = "ok" if outcome.failure is None else outcome.failure.kind
    return AttemptShown(plan.mode, outcome.session_id, ended, outcome.usage, outcome.cost_usd)


def _sum(costs: Iterable[float | None]) -> float | None:
    amounts = [cost for cost in costs if cost is not None]
    return sum(amounts) if amounts else None
