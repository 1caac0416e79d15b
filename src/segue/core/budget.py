"""Budgets: how much may be spent in a conversation, by a flow, on a day and under an account, and when to ask
the user.

The expected price of a turn is looked at before it begins. Pure: what was spent is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import fsum
from typing import Any, Literal

import msgspec

from segue.core.prompt_parts import one_line
from segue.core.turn import Check
from segue.core.usage import count_in_words
from segue.core.verdicts import NOTHING, Said, failed, listed, passed, say

Scope = Literal["conversation", "day", "account", "flow", "tier"]
TINY = 1e-9
"""Amounts that differ by less are the same: sums of dollars are not exact."""
STOP = "Stop here"
MOST_PARTS = 5
EXCERPT = 200


class SpentOn(msgspec.Struct, frozen=True):
    """What some turns cost. ``name``: the agent, with its role; of a day or an account, the conversation."""

    name: str
    turns: int
    usd: float


Verdict = Literal["begins", "waits", "asks"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that is configured, and what counts against it."""

    key: str = ""
    """Names it among all budgets of the store: runs wait for a budget under this name."""
    scope: Scope
    name: str
    """The key of the conversation, the date, the name of the account, or the id of the flow."""
    day: str | None = None
    """The local date that it is for; None: it does not start again every day."""
    limit: float
    raised: float | None = None
    """The amount that the user has raised it to."""
    spent_on: tuple[SpentOn, ...] = ()
    running: float = 0.0
    """What is reserved for the turns that run now."""
    unpriced: int = 0
    """How many turns run now whose price is not known."""

    @property
    def allowed(self) -> float:
        return max(self.limit, self.raised or 0.0)

    @property
    def spent(self) -> float:
        return fsum(each.usd for each in self.spent_on)

    def verdict(self, price: Expected) -> Verdict:
        """Whether a turn of this price may begin. It ``asks`` if too much is spent, and ``waits`` if only
        what is reserved for running turns stands in the way. If nothing is left, no turn begins. Turns whose
        price is not known begin one at a time."""
        usd, left_of_spent = price.usd or 0.0, fsum((self.allowed, -self.spent))
        if left_of_spent <= TINY or usd > left_of_spent + TINY:
            return "asks"
        left = fsum((left_of_spent, -self.running))
        if left <= TINY or usd > left + TINY or (price.usd is None and self.unpriced):
            return "waits"
        return "begins"


class Expected(msgspec.Struct, frozen=True):
    """What a turn is expected to cost. If there is no forecast, the last known cost counts: of its voice,
    else of its agent. An agent that has answered, but whose answers never had a known cost, counts as
    free."""

    usd: float | None = None
    source: Literal["forecast", "last"] | None = None
    """None: the price is not known, or never will be."""


class ReachedBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that does not cover the next turn. All amounts are US dollars."""

    scope: Scope
    name: str
    """The key of the conversation, the date, the name of the account, or the id of the flow; of a tier, also
    its number."""
    day: str | None
    """The local date that it is for; null: it does not start again every day."""
    limit: float
    """What may be spent now, as configured or raised."""
    spent: float
    running: float
    """What turns that run now are expected to cost."""
    predicted: float | None
    """What the turn is expected to cost; null: nothing is known about it."""
    predicted_from: Literal["forecast", "last"] | None
    """``last``: there is no forecast, so it is what the agent's last turn cost."""
    suggested: float
    """An amount that covers the turn."""
    spent_on: tuple[SpentOn, ...] = ()
    """What was done, the dearest first."""
    message: str = ""
    """The beginning of the message that waits."""


def tier_name(flow: str, tier: int | None) -> str:
    """The name of a tier's budget."""
    return f"{flow}/{tier}"


def expected(predicted: float | None, last: float | None, *, answered: bool = False) -> Expected:
    """The price that counts. ``last``: the last known cost above 0; ``answered``: the agent has answered."""
    if predicted is not None:
        return Expected(predicted, "forecast")
    if last is not None:
        return Expected(last, "last")
    return Expected(0.0) if answered else Expected()


def first_in_the_way(budgets: Sequence[Budget], price: Expected) -> Budget | None:
    """The budget that keeps a turn of this price from beginning: one of which too much is spent, else one
    that is reserved; None: it can begin."""
    verdicts = [(each, each.verdict(price)) for each in budgets]
    for wanted in ("asks", "waits"):
        for budget, verdict in verdicts:
            if verdict == wanted:
                return budget
    return None


def booked(usd: float | None, reserved: float | None, may_have_worked: bool) -> float | None:
    """The cost to book for a run that is over, if its own cost is not known: what was reserved for it."""
    return reserved if usd is None and reserved and may_have_worked else usd


def reached_of(budget: Budget, price: Expected, message: str) -> ReachedBudget:
    """What the user is asked about."""
    return ReachedBudget(
        scope=budget.scope,
        name=budget.name,
        day=budget.day,
        limit=budget.allowed,
        spent=budget.spent,
        running=budget.running,
        predicted=price.usd if price.source is not None else None,
        predicted_from=price.source,
        suggested=_suggested(budget, price.usd or 0.0),
        spent_on=_dearest(budget.spent_on),
        message=one_line(message[: 4 * EXCERPT], EXCERPT),
    )


def is_enough(reached: ReachedBudget, amount: float) -> bool:
    """Whether the turn could begin if the budget were raised to this."""
    left = fsum((amount, -reached.spent, -reached.running))
    return amount > reached.limit and left > TINY and (reached.predicted or 0.0) <= left + TINY


def budget_check(budgets: Sequence[Budget], price: Expected) -> Check:
    """It rules no mode out: if it fails, the turn does not begin before the user has answered, or a running
    one has ended."""
    for verdict, what in (
        ("asks", say("; a turn now would ask you first", "budget.asks")),
        ("waits", say("; a turn now would wait until a running one has ended", "budget.waits")),
    ):
        over = [each for each in budgets if each.verdict(price) == verdict]
        if over:
            return failed("budget", (), listed(map(_used, over), "; ") + _about(price) + what)
    return passed("budget", listed(map(_used, budgets), ", ") + _about(price))


def in_dollars(usd: float) -> str:
    """``$12.50``, ``$0.031``, ``$0.00042``."""
    if usd >= 1 or usd == 0:
        return f"${usd:,.2f}"
    if usd >= 0.01:
        return f"${usd:.3f}"
    return "$" + f"{usd:.6f}".rstrip("0").rstrip(".")


def whose_budget(reached: ReachedBudget) -> str:
    """``the budget of this conversation``."""
    match reached.scope:
        case "day":
            return "today's budget"
        case "account":
            return f"today's budget of the account {reached.name}"
        case scope:
            return f"the budget of this {scope}"


def reached_in_words(reached: ReachedBudget) -> str:
    """One sentence, without a full stop."""
    parts = [f"{in_dollars(reached.spent)} is spent"]
    if reached.running:
        parts.append(f"turns that run will cost about {in_dollars(reached.running)}")
    if reached.predicted is not None and reached.predicted_from == "last":
        parts.append(
            f"the price of this turn is not known (the last one cost {in_dollars(reached.predicted)})"
        )
    elif reached.predicted is not None:
        parts.append(f"this turn will cost about {in_dollars(reached.predicted)}")
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
    return f"{whose_budget(reached)} is {in_dollars(reached.limit)}: {listed}"


def done_in_words(reached: ReachedBudget) -> str:
    """``claude $4.10 (5 turns), codex $0.70 (1 turn)``; empty if nothing was spent."""
    return ", ".join(
        f"{each.name} {in_dollars(each.usd)} ({count_in_words(each.turns, 'turn')})"
        for each in reached.spent_on
    )


def asked_in_full(reached: ReachedBudget) -> str:
    """What is asked, with what is done and what is open."""
    sentence = reached_in_words(reached)
    done, waits = done_in_words(reached), reached.message
    return "".join(
        (
            f"{sentence[0].upper()}{sentence[1:]}.",
            f" Spent on: {done}." if done else "",
            f" What waits: {waits}" if waits else "",
        )
    )


def raise_label(reached: ReachedBudget) -> str:
    return f"Raise it to {in_dollars(reached.suggested)}"


def as_question(reached: ReachedBudget) -> list[dict[str, Any]]:
    """The question in the form in which agents ask, for those who answer them."""
    until = f"for this {reached.scope}" if reached.day is None else "for today"
    return [
        {
            "question": asked_in_full(reached),
            "options": [
                {"label": STOP, "description": "the message is kept, and no agent sees it"},
                {"label": raise_label(reached), "description": f"{until}; or type another amount, as $12.50"},
            ],
        }
    ]


def amount_of(reached: ReachedBudget, answer: str) -> float | None:
    """The amount in an answer; None: it is not raised."""
    if answer.strip() == raise_label(reached):
        return reached.suggested
    found = re.fullmatch(r"\$?\s*(\d{1,9}(?:\.\d{1,9})?)\s*\$?", answer.strip().replace(",", ""))
    amount = float(found[1]) if found is not None else 0.0
    return amount if amount > reached.limit else None


def raise_command(run: str, reached: ReachedBudget) -> str:
    """The command that raises it and goes on."""
    return f"segue answer {run} --budget {plain_number(reached.suggested)}"


def plain_number(usd: float) -> str:
    """``10``, ``0.000021``: as it is typed."""
    return f"{usd:.9f}".rstrip("0").rstrip(".")


def _suggested(budget: Budget, price: float) -> float:
    """The next multiple of the configured limit that is more than what will be spent then."""
    needed = fsum((budget.spent, budget.running, price))
    times = int(max(needed, budget.allowed) / budget.limit + TINY) + 1
    return round(times * budget.limit, 9)


def _dearest(parts: Sequence[SpentOn]) -> tuple[SpentOn, ...]:
    ordered = sorted((each for each in parts if each.usd), key=lambda each: (-each.usd, each.name))
    if len(ordered) <= MOST_PARTS:
        return tuple(ordered)
    first, rest = ordered[: MOST_PARTS - 1], ordered[MOST_PARTS - 1 :]
    others = SpentOn("others", sum(each.turns for each in rest), fsum(each.usd for each in rest))
    return (*first, others)


def _used(budget: Budget) -> Said:
    spent, allowed = fsum((budget.spent, budget.running)), budget.allowed
    name = f"account {budget.name}" if budget.scope == "account" else budget.scope
    text = f"{name} {in_dollars(spent)} of {in_dollars(allowed)}"
    return say(text, f"budget.{budget.scope}", name=budget.name, usd=spent, max_usd=allowed)


def _about(price: Expected) -> Said:
    if price.usd is None or price.source is None:
        return NOTHING
    last = price.source == "last"
    text = f"; {'the last turn cost' if last else 'this turn about'} {in_dollars(price.usd)}"
    return say(text, "budget.last" if last else "budget.about", usd=price.usd)
