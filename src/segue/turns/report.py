"""What is told of a turn: its outcome with a price, with advice, as the object for the outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from segue.core.environment import login_hint
from segue.core.outcome import Failure, Outcome
from segue.core.prices import price_for
from segue.core.tools import DeniedTools
from segue.core.turn import AttemptShown, Saved, Sent, Turn, next_command, shown_failure, state_of
from segue.core.usage import Price, Usage
from segue.store.records import TurnRow
from segue.turns.prepare import Prepared
from segue.turns.run_dir import Plan

Made = Sequence[tuple[Plan, Outcome]]
"""The attempts of a turn, each with what came of it."""
LEFT_ALONE = (
    "whether it did anything is not known, so it was not run again with the conversation as text instead"
)


def priced(outcome: Outcome, plan: Plan, prices: Mapping[str, Price]) -> Outcome:
    """Where the CLI names no cost, the price table estimates it."""
    model = outcome.model or plan.model
    if outcome.cost_usd is not None or model is None:
        return outcome
    price = price_for(model, prices)
    cost = price.cost(outcome.usage) if price is not None else None
    return msgspec.structs.replace(outcome, cost_usd=cost, cost_estimated=cost is not None)


def advised(outcome: Outcome, prepared: Prepared) -> Outcome:
    """A failed login after a key was withheld says so, and how to pass the key."""
    failure = outcome.failure
    if failure is None or failure.kind != "auth":
        return outcome
    withheld = [key for key in prepared.child.withheld if key in prepared.agent.keys]
    hint = login_hint(prepared.agent.label, withheld, prepared.account, prepared.agent.name)
    if hint is None:
        return outcome
    said = Failure("auth", f"{failure.message} ({hint})", failure.reason, failure.until, failure.status)
    return msgspec.structs.replace(outcome, failure=said)


def left_alone(outcome: Outcome) -> Outcome:
    """A failure after which it would have stepped down, if it were known that it had done nothing."""
    failure = outcome.failure
    assert failure is not None
    said = f"{failure.message}; {LEFT_ALONE}"
    return msgspec.structs.replace(outcome, failure=msgspec.structs.replace(failure, message=said))


def told(
    made: Made, *, saved: Saved, notices: Sequence[str], duration_ms: int, retry_of: str | None = None
) -> Turn:
    """The turn as ``segue run --json`` prints it: the last attempt's words, the sum of all costs."""
    plan, outcome = made[-1]
    native = plan.mode in ("resume", "branch")
    calls = [each.tools_run for _, each in made]
    tools = None if None in calls else sum(filter(None, calls))
    return Turn(
        run=plan.turn,
        conversation=plan.key,
        message=plan.message,
        agent=plan.voice.agent,
        account=plan.account or None,
        model=outcome.model or plan.model,
        role=plan.voice.role or None,
        terms=plan.terms,
        mode=plan.mode,
        resumed=native,
        why=plan.checks,
        session_id=outcome.session_id,
        resumed_from=plan.pin.native_id if native and plan.pin is not None else None,
        sent=plan.sent,
        text=outcome.text,
        state=state_of(outcome),
        status=outcome.status,
        failure=shown_failure(outcome),
        retry_of=retry_of,
        next=next_command(plan.key, plan.message, outcome.failure, tools != 0, plan.named),
        usage=sum((each.usage for _, each in made), Usage()),
        cost_usd=_sum(each.cost_usd for _, each in made),
        cost_estimated=any(each.cost_estimated for _, each in made),
        predicted_usd=plan.predicted_usd,
        saved=saved,
        context=outcome.context,
        model_turns=outcome.model_turns,
        tools_run=tools,
        tools_denied=_denied([each for _, each in made]),
        attempts=tuple(_shown(*each) for each in made),
        notices=tuple(notices),
        duration_ms=duration_ms,
    )


def refused(attempts: Sequence[Outcome]) -> tuple[str, ...]:
    """The notice that tools were refused, if any were."""
    denied = _denied(attempts)
    return (f"{denied} (see --permission and --allow-tool)",) if denied is not None and denied.count else ()


def failed_if_denied(turn: Turn, cwd: str | None) -> Turn:
    """A success in which nothing may be refused. Its answer stays: the agent goes on from there.

    ``cwd``: the directory, where it has to be named.
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


def told_without(prepared: Prepared, failure: Failure, duration_ms: int, row: TurnRow | None) -> Turn:
    """A turn that never began. ``row``: what is stored of it, if anything is."""
    outcome, message = Outcome(failure=failure), row.message if row is not None else None
    return Turn(
        run=prepared.run,
        conversation=prepared.conversation.key,
        message=message,
        agent=prepared.agent.name,
        account=prepared.account,
        model=prepared.request.model,
        role=prepared.role or None,
        terms=prepared.terms(),
        mode="fresh",
        resumed=False,
        session_id=None,
        sent=Sent(),
        text="",
        state="withdrawn",
        status="failed",
        failure=shown_failure(outcome),
        retry_of=row.retry_of if row is not None else None,
        next=next_command(prepared.conversation.key, message, failure, False, prepared.named),
        usage=Usage(),
        cost_usd=None,
        cost_estimated=False,
        context=outcome.context,
        model_turns=None,
        tools_run=0,
        tools_denied=DeniedTools(),
        attempts=(),
        duration_ms=duration_ms,
    )


def _denied(attempts: Sequence[Outcome]) -> DeniedTools | None:
    """Of all attempts; None where it cannot be seen."""
    known = [each.tools_denied for each in attempts if each.tools_denied is not None]
    return sum(known, DeniedTools()) if len(known) == len(attempts) else None


def _shown(plan: Plan, outcome: Outcome) -> AttemptShown:
    ended = "ok" if outcome.failure is None else outcome.failure.kind
    return AttemptShown(plan.mode, outcome.session_id, ended, outcome.usage, outcome.cost_usd)


def _sum(costs: Iterable[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
