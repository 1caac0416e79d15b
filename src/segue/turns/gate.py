"""The gate: every run of every door passes here, under its conversation's lease, right before it begins.

The laws that write nothing are judged first, in one order. The last step writes: one transaction looks at
every budget, and begins the run with its reservation. It returns an ``Admission``; a prompt is composed and
an agent is launched only with one. What sends words without a run (a carry, a summary, a hand-off) asks
``may_send``. ``segue why`` asks ``judge``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from segue.config.schema import Config
from segue.core.budget import (
    Budget,
    Expected,
    ReachedBudget,
    budget_check,
    first_in_the_way,
    reached_in_words,
    reached_of,
    whose_budget,
)
from segue.core.environment import OURS
from segue.core.laws import Consent, Door, Law
from segue.core.turn import Check
from segue.core.view import account_of, is_consented, mark_parts, old_account_mark, plain
from segue.store.leases import OVERTAKEN
from segue.store.records import Claim, TurnRow
from segue.store.store import Store
from segue.system.processes import MARK
from segue.turns.budget import budgets_of, expected_price
from segue.turns.prepare import Prepared, as_of_now, not_in_force


class Reserved(msgspec.Struct, frozen=True):
    """A budget that is reserved for runs that have begun. ``seen``: what was reserved in all, to compare."""

    budget: str
    message: str
    seen: tuple[int, float, int]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """It is not done. ``message``: why, in one line. ``way``: what can be done."""

    law: Law
    message: str
    way: str = ""
    waits: Reserved | None = None
    """Only reservations stand in the way: when one is given back, the run may try again."""
    reached: ReachedBudget | None = None
    """The budget of which too much is spent: the user is asked."""

    def __str__(self) -> str:
        return f"{self.message}; {self.way}" if self.way else self.message


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run that may begin now, under its conversation's lease."""

    prepared: Prepared
    row: TurnRow
    store: Store
    claim: Claim
    begin: Callable[[Prepared, TurnRow, Door, float | None], TurnRow]
    """Writes that the run begins, with its door and its reservation. Raises ``NotWaiting``."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has begun. Only ``admit`` makes one."""

    door: Door
    prepared: Prepared
    """As of now."""
    row: TurnRow
    price: Expected
    """What is reserved for it."""
    check: Check | None = None
    """Of its budgets, if there are any."""


def admit(door: Door, request: AdmissionRequest) -> Admission | Refused:
    """Judge the run as of now, and begin it. This may wait for the store, never for a person."""
    now = as_of_now(request.prepared, request.store)
    refused = next(_broken(now), None)
    return refused if refused is not None else _begun(door, request, now)


def judge(prepared: Prepared) -> tuple[Refused, ...]:
    """What would keep a run from beginning now, its budgets left aside. Nothing is written."""
    return tuple(_broken(prepared))


def may_send(config: Config, marks: Iterable[str], to: str, consent: Consent) -> Refused | None:
    """Why words with these marks may not reach the login of the mark ``to``; None: they may.

    A ``never`` rule counts whatever the agents, and also for words that were carried with consent before.
    Between two logins of one agent somebody must want it. Words that were carried with consent need no new
    consent, except for a policy: it may send only what the rules allow unasked.
    """
    agent, target, _ = mark_parts(to)
    own = (to, old_account_mark(agent, target))
    others = sorted({each for each in marks if plain(each) not in own}, key=plain)
    for mark in others:
        if config.carry_rule(account_of(mark), target) == "never":
            message = f"{_said_under(mark)} is never carried over to {target or NO_ACCOUNT}"
            return Refused(law="wall", message=message, way="see [carry] in config.toml, or use one account")
    for mark in others:
        if mark_parts(plain(mark))[0] != agent:
            continue
        by_policy = consent == "policy" and config.carry_rule(account_of(mark), target) != "allow"
        if by_policy or (consent == "none" and not is_consented(mark)):
            message = f"{_said_under(mark)} is not carried over to {target or NO_ACCOUNT} unasked"
            return Refused(law="wall", message=message, way="--carry; in a FLOW.toml: carry = true")
    return None


NO_ACCOUNT = "no account"


def _said_under(mark: str) -> str:
    return f"what was said under {account_of(mark) or NO_ACCOUNT}"


def wall(now: Prepared) -> Refused | None:
    """What the prompt repeats may reach this login. (What it sees of the conversation, its view says.)"""
    return may_send(now.config, now.ask.given, now.mark, now.ask.consent)


def permission(now: Prepared) -> Refused | None:
    """What is shown is in force with this version of the CLI, whatever its settings files say."""
    why = not_in_force(now.agent, now.request, now.runtime, now.home, now.child)
    return Refused(law="permission", message=why) if why is not None else None


def secrets(now: Prepared) -> Refused | None:
    """Of Segue's own variables the agent gets one: the mark of its process."""
    ours = sorted(name for name in now.child.env if name.startswith(OURS) and name != MARK)
    message = f"the agent would be given {', '.join(ours)}"
    return (
        Refused(law="secrets", message=message, way="leave them out of the account's env") if ours else None
    )


LAWS: tuple[Callable[[Prepared], Refused | None], ...] = (wall, permission, secrets)
"""Those that write nothing, in their order. What a project's file may decide is judged where it is read."""


def _broken(now: Prepared) -> Iterator[Refused]:
    return (refused for law in LAWS if (refused := law(now)) is not None)


def _begun(door: Door, request: AdmissionRequest, now: Prepared) -> Admission | Refused:
    """One writer, and the budgets: in one transaction, alone among all that begin, on any host."""
    store, row = request.store, request.row
    price = expected_price(now, store, row.message)  # reads files, so before the transaction
    with store.budgets.alone_to_begin(request.claim) as ours:
        if not ours:
            return Refused(law="one writer", message=OVERTAKEN)
        budgets = budgets_of(now, store)
        budget = first_in_the_way(budgets, price)
        if budget is not None:
            return _uncovered(budget, price, now, store, row)
        row = request.begin(now, row, door, price.usd)
    check = budget_check(budgets, price) if budgets else None
    return Admission(door=door, prepared=now, row=row, price=price, check=check)


def _uncovered(budget: Budget, price: Expected, now: Prepared, store: Store, row: TurnRow) -> Refused:
    """The budget does not cover the run: too much is spent, or reserved for runs that have begun."""
    text = store.texts([row.message]).get(row.message, now.ask.prompt)  # it may have been edited meanwhile
    reached = reached_of(budget, price, text)
    if budget.verdict(price) == "asks":
        return Refused(law="budget", message=reached_in_words(reached), reached=reached)
    store.budgets.wait_for(row.id, budget.key)
    message = f"{whose_budget(reached)} is reserved for turns that run"
    waits = Reserved(budget.key, message, store.budgets.reservations())
    return Refused(law="budget", message=message, waits=waits)
