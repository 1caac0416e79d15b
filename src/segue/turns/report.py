"""What is told of a turn: its outcome with a price, with advice, as the object for the outside."""

from __future__ import annotations

import msgspec

from segue.core.environment import login_hint
from segue.core.outcome import Failure, Outcome
from segue.core.prices import price_for
from segue.core.turn import AttemptShown, Check, Sent, Turn, shown_failure
from segue.turns.prepared import Prepared


def told(prepared: Prepared, outcome: Outcome, duration_ms: int) -> Turn:
    """The turn as ``segue run --json`` prints it."""
    return _tell(prepared, _advised(_priced(outcome, prepared), prepared), duration_ms)


def _priced(outcome: Outcome, prepared: Prepared) -> Outcome:
    """Where the CLI names no cost, the price table estimates it."""
    model = outcome.model or prepared.request.model
    if outcome.cost_usd is not None or model is None:
        return outcome
    price = price_for(model, prepared.config.prices)
    cost = price.cost(outcome.usage) if price is not None else None
    return msgspec.structs.replace(outcome, cost_usd=cost, cost_estimated=cost is not None)


def _advised(outcome: Outcome, prepared: Prepared) -> Outcome:
    """A failed login after a key was withheld says so, and how to pass the key."""
    failure = outcome.failure
    if failure is None or failure.kind != "auth":
        return outcome
    withheld = [key for key in prepared.child.withheld if key in prepared.agent.keys]
    hint = login_hint(prepared.agent.label, withheld, prepared.account, prepared.agent.name)
    if hint is None:
        return outcome
    told = Failure("auth", f"{failure.message} ({hint})", failure.reason, failure.until, failure.status)
    return msgspec.structs.replace(outcome, failure=told)


def _tell(prepared: Prepared, outcome: Outcome, duration_ms: int) -> Turn:
    shown = "ok" if outcome.failure is None else outcome.failure.kind
    no_pin = Check("pin", "fail", ("resume", "branch"), "conversations are not kept yet: every turn is fresh")
    return Turn(
        run=prepared.run,
        conversation=prepared.ask.key,
        agent=prepared.agent.name,
        account=prepared.account,
        model=outcome.model or prepared.request.model,
        role=prepared.ask.role,
        mode="fresh",
        resumed=False,
        why=(no_pin,),
        session_id=outcome.session_id,
        sent=Sent(0, 1, len(prepared.request.prompt.encode())),
        text=outcome.text,
        status=outcome.status,
        failure=shown_failure(outcome),
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        cost_estimated=outcome.cost_estimated,
        context=outcome.context,
        model_turns=outcome.model_turns,
        tools_run=outcome.tools_run,
        attempts=(AttemptShown("fresh", outcome.session_id, shown, outcome.usage, outcome.cost_usd),),
        duration_ms=duration_ms,
    )
