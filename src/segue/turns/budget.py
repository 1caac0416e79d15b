"""The budgets of a turn, what counts against them, and what the turn is expected to cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum

from segue.core import ladder
from segue.core.budget import (
    Budget,
    Expected,
    ReachedBudget,
    Scope,
    SpentOn,
    budget_check,
    expected,
    tier_name,
)
from segue.core.forecast import predict
from segue.core.turn import Check
from segue.store.budgets import CostRow, RaisedTo
from segue.store.store import Store
from segue.turns.forecast import forecast
from segue.turns.prepare import Prepared
from segue.turns.situation import gather


def planned_check(prepared: Prepared, store: Store, predicted: float | None) -> Check:
    """The check for a turn that is only planned. ``predicted``: what it would cost, if that is known."""
    return budget_check(budgets_of(prepared, store), _priced(prepared, store, predicted))


def expected_price(prepared: Prepared, store: Store, message: str) -> Expected:
    """What the turn is expected to cost. Reads session files, if anything limits the turn."""
    predicted = _predicted(prepared, store, message) if prepared.has_budget else None
    return _priced(prepared, store, predicted)


def budgets_of(prepared: Prepared, store: Store) -> tuple[Budget, ...]:
    """The budgets that count for the turn, with what was spent."""
    found = [*_of_conversations(prepared, store), *_of_day(prepared, store), *_of_flow(prepared, store)]
    return tuple(found)


def _of_conversations(prepared: Prepared, store: Store) -> Iterator[Budget]:
    """The budget of its conversation, and of the one that it is done for."""
    limit, spent = prepared.config.budgets.conversation, store.budgets
    if not limit:
        return
    known = [prepared.conversation]
    if prepared.ask.counts_for is not None:
        known += filter(None, [store.conversation(prepared.ask.counts_for)])
    for each in known:
        yield _budget(
            key=f"conversation:{each.id}",
            scope="conversation",
            name=each.key,
            limit=limit,
            raised=spent.raised_to("conversation", each.id, ""),
            rows=spent.spent_in(each.id, each.key),
        )


def _of_day(prepared: Prepared, store: Store) -> Iterator[Budget]:
    """The budgets of today: of everything, and of the account."""
    config, account, spent = prepared.config, prepared.account_name, store.budgets
    limits: list[tuple[Scope, str, float]] = [
        ("day", "", config.budgets.day),
        ("account", account, config.budget_under(account)),
    ]
    if not any(limit for _, _, limit in limits):
        return
    day, since_ms = local_day(store.clock_ms())
    of_day = spent.spent_since(since_ms)
    for scope, name, limit in limits:
        if limit:
            yield _budget(
                key=f"{scope}:{name}:{day}",
                scope=scope,
                name=name or day,
                day=day,
                limit=limit,
                raised=spent.raised_to(scope, name, day),
                rows=[row for row in of_day if scope == "day" or row.part == name],
            )


def _of_flow(prepared: Prepared, store: Store) -> Iterator[Budget]:
    """The budgets of the flow that the turn belongs to, and of its tier."""
    place = prepared.ask.flow
    if place is None:
        return
    limits: list[tuple[Scope, str, int | None, float]] = [
        ("flow", place.flow, None, place.budget or prepared.config.budgets.flow),
        ("tier", tier_name(place.flow, place.tier), place.tier, place.tier_budget or 0),
    ]
    for scope, name, tier, limit in limits:
        if limit:
            yield _budget(
                key=f"{scope}:{name}",
                scope=scope,
                name=name,
                limit=limit,
                raised=store.budgets.raised_to(scope, name, ""),
                rows=store.budgets.spent_by(place.flow, tier),
            )


def _budget(
    *,
    key: str,
    scope: Scope,
    name: str,
    limit: float,
    raised: float | None,
    rows: Sequence[CostRow],
    day: str | None = None,
) -> Budget:
    """``rows``: what counts against it."""
    return Budget(
        key=key,
        scope=scope,
        name=name,
        day=day,
        limit=limit,
        raised=raised,
        spent_on=_added(rows, _key if day is not None else _voice),
        running=fsum(row.reserved for row in rows if row.reserved is not None),
        unpriced=sum(row.unpriced for row in rows),
    )


def local_day(now_ms: int) -> tuple[str, int]:
    """The local date, and when it began. A day may have 23 or 25 hours."""
    now = time.localtime(now_ms / 1000)
    began = time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
    return time.strftime("%Y-%m-%d", now), round(began * 1000)


def raised_to(reached: ReachedBudget, conversation: str, amount: float) -> RaisedTo:
    """What is stored if the budget is raised to this amount."""
    if reached.scope == "conversation":
        return RaisedTo(
            scope="conversation", name=conversation, day="", usd=amount, conversation=conversation
        )
    name = "" if reached.scope == "day" else reached.name
    return RaisedTo(scope=reached.scope, name=name, day=reached.day or "", usd=amount)


def _priced(prepared: Prepared, store: Store, predicted: float | None) -> Expected:
    if predicted is not None:
        return expected(predicted, None)
    last = store.budgets.last_cost(prepared.conversation.id, prepared.voice)
    answered = last is None and store.budgets.has_answered(prepared.voice.agent)
    return expected(None, last, answered=answered)


def _predicted(prepared: Prepared, store: Store, message: str) -> float | None:
    """What the turn will cost in the mode that it will use."""
    from segue.turns.planned_store import PlannedStore  # most turns have no budget

    then = PlannedStore(store, prepared.conversation)
    if prepared.adopted is not None:
        from segue.turns.adopt import adoption_of

        then.adopt_messages(adoption_of(prepared, then, prepared.adopted))
    then.retry_message(message, prepared)
    gathered = gather(prepared, then)
    mode = ladder.decide(gathered.situation).mode
    return next((each.usd for each in predict(forecast(gathered, prepared)) if each.mode == mode), None)


def _added(rows: Iterable[CostRow], name: Callable[[CostRow], str]) -> tuple[SpentOn, ...]:
    costs: dict[str, list[CostRow]] = {}
    for row in rows:
        if row.usd is not None:
            costs.setdefault(name(row), []).append(row)
    return tuple(
        SpentOn(each, sum(part.turns for part in parts), fsum(part.usd or 0.0 for part in parts))
        for each, parts in costs.items()
    )


def _voice(row: CostRow) -> str:
    return f"{row.name} ({row.part})" if row.part else row.name


def _key(row: CostRow) -> str:
    return row.name
