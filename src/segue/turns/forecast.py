"""What the next turn would cost in each mode, estimated from earlier turns of the conversation."""

from __future__ import annotations

from collections.abc import Mapping

from segue.core.forecast import Outlook, expected, predict
from segue.core.forecast import saved as saved_against
from segue.core.ladder import Decision
from segue.core.outcome import Outcome
from segue.core.prices import price_for
from segue.core.situation import FRAME_BYTES, RUNGS, tokens_of
from segue.core.turn import Mode, RungShown, Saved, Turn
from segue.core.usage import Price
from segue.turns.prepare import Prepared
from segue.turns.run_dir import Plan
from segue.turns.situation import Gathered

REMEMBERED = 10
"""How many of the last turns are used to predict the next one."""


def forecast(gathered: Gathered, prepared: Prepared) -> Outlook:
    situation, pin, agent = gathered.situation, gathered.pin, prepared.agent.facts.name
    turns = [turn for turn in gathered.recent if turn.agent == agent and turn.failure is None][-REMEMBERED:]
    model = (
        prepared.request.model or (pin.model_used if pin else None) or (turns[-1].model if turns else None)
    )
    habits = prepared.agent.facts.habits
    last_ms = max((ms for name, ms in gathered.last_used.items() if name == agent), default=0)
    return Outlook(
        habits=habits,
        can=prepared.runtime.capabilities,
        text_bytes=_sizes(gathered, prepared.config.recap.max_bytes),
        context=pin.context.used if pin is not None else None,
        idle_ms=_idle_ms(gathered),
        kept_share=_kept_share(gathered),
        overhead=_overhead(turns),
        overhead_warm=situation.now_ms - last_ms < habits.cache_ms,
        repeated=tokens_of(turns[-1].sent.bytes) if turns and turns[-1].mode == "replay" else 0,
        output=expected(turn.usage.output for turn in turns),
        requests=max(1, expected((turn.model_turns for turn in turns), 1)),
        price=price_for(model, prepared.config.prices) if model else None,
    )


def shown_rungs(
    decision: Decision, chosen: Mode, outlook: Outlook, refused: str | None = None
) -> tuple[RungShown, ...]:
    """The ladder with the cost of each mode.

    ``refused``: why the attempt before this one failed. That is then what rules out the modes above.
    """
    costs = {each.mode: each for each in predict(outlook)}
    shown = []
    for rung in decision.rungs:
        state, why, clauses, cost = rung.state, rung.why, rung.clauses, costs.get(rung.mode)
        if rung.mode == chosen:
            state = "chosen"
        elif refused and state != "impossible" and RUNGS.index(rung.mode) < RUNGS.index(chosen):
            state, why, clauses = "barred", refused, ()
        new, cached, usd = (cost.new_tokens, cost.cached_tokens, cost.usd) if cost else (None, None, None)
        shown.append(RungShown(rung.mode, state, why, new, cached, usd, clauses))
    return tuple(shown)


def _idle_ms(gathered: Gathered) -> int | None:
    """Time since the session's last success; None if no cache would serve it, because its tools changed."""
    pin, now = gathered.pin, gathered.situation
    if pin is None or (None not in (pin.offers, now.offers) and pin.offers != now.offers):
        return None
    return now.now_ms - pin.succeeded_ms


def _sizes(gathered: Gathered, recap_bytes: int) -> dict[Mode, int]:
    """What each mode would send as text; a mode that has nothing to send or to continue is left out.

    A resume is computed as if the whole session were still valid: so if it is ruled out, its figures show
    what that costs.
    """
    now, cut = gathered.situation, gathered.situation.cut
    text = sum(message.size + FRAME_BYTES for message in cut.text) if len(cut.text) > 1 else now.new_bytes
    sizes: dict[Mode, int] = {"fresh": now.new_bytes}
    if now.earlier:
        sizes |= {"replay": now.view_bytes, "recap": min(now.view_bytes, recap_bytes + now.new_bytes)}
    if gathered.pin is not None:
        sizes["resume"] = text if cut.whole else now.new_bytes
    if cut.anchor is not None:
        sizes["branch"] = text
    return sizes


def saved_by(plan: Plan, outcome: Outcome, prices: Mapping[str, Price]) -> Saved:
    """What a turn that continued a session saved compared with sending the conversation as text."""
    if plan.mode not in ("resume", "branch") or outcome.failure is not None:
        return Saved()
    model = outcome.model or plan.model
    return saved_against(
        outcome.usage,
        price_for(model, prices) if model else None,
        replay_tokens=plan.replay_tokens,
        overhead=plan.overhead,
        overhead_warm=plan.overhead_warm,
        requests=outcome.model_turns or 1,
        growth=_growth(plan, outcome),
    )


def _growth(plan: Plan, outcome: Outcome) -> int:
    """How many tokens the turn's own tool calls and results added to its context."""
    before = plan.pin.context.used if plan.pin is not None else None
    if before is None or outcome.context.used is None or (outcome.model_turns or 1) == 1:
        return 0
    return max(0, outcome.context.used - before - tokens_of(plan.sent.bytes))


def _overhead(turns: list[Turn]) -> int | None:
    """The tokens of a new session of this agent before its first message, as seen in the last one."""
    for turn in reversed(turns):
        prompt = turn.usage.prompt
        if not turn.resumed and turn.model_turns in (None, 1) and prompt:
            return max(0, prompt - tokens_of(turn.sent.bytes))
    return None


def _kept_share(gathered: Gathered) -> float | None:
    """The share of the view that a branch would keep, in bytes."""
    text = {message.id for message in gathered.situation.cut.text}
    whole = sum(message.size for message in gathered.view)
    kept = sum(message.size for message in gathered.view if message.id not in text)
    return kept / whole if whole and gathered.pin is not None else None
