"""Whether a turn's budgets cover it: before it begins, under the conversation's lease.

If one does not, the user is asked. A queued run waits for the answer. Who waits at a terminal is asked there.
Otherwise the turn ends without having begun, and the question stays. Loaded only if there are budgets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import fsum

import anyio
import msgspec

from segue.agents.base import Answer
from segue.core import ladder
from segue.core.budget import (
    STOP,
    Budget,
    Expected,
    ReachedBudget,
    Scope,
    SpentOn,
    amount_of,
    as_question,
    budget_check,
    expected,
    first_reached,
    raise_command,
    reached_in_words,
    reached_of,
    tier_name,
)
from segue.core.events import Permission, Question
from segue.core.forecast import predict
from segue.core.outcome import Failure
from segue.core.question import OpenQuestion
from segue.core.turn import Check, Turn
from segue.runner.attempt import Answerer, Cancel
from segue.store.budgets import CostRow, RaisedTo
from segue.store.leases import Lease
from segue.store.records import QUEUED, NotWaiting, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.loop import in_loop, run_sync
from segue.turns.forecast import forecast
from segue.turns.live_turn import Callbacks, LiveTurn
from segue.turns.message import stored_request, withdraw
from segue.turns.planned_store import PlannedStore
from segue.turns.prepare import Prepared
from segue.turns.questions import ask
from segue.turns.report import report_withdrawn
from segue.turns.situation import gather

LISTEN_S = 0.1
"""How often to look whether the turn was cancelled while the user is asked."""


async def within_budget(
    prepared: Prepared, store: Store, row: TurnRow, lease: Lease, callbacks: Callbacks, began_ns: int
) -> tuple[Prepared, Turn | None]:
    """The turn, with the check that it has passed. If it does not begin: its report."""
    while True:
        budgets, price = await run_sync(_look, prepared, store, row)
        budget = first_reached(budgets, price)
        if budget is None:
            return msgspec.structs.replace(prepared, budget=budget_check(budgets, price)), None
        reached = reached_of(budget, price, prepared.ask.prompt)
        gate = _Gate(prepared, store, row, reached, (time.monotonic_ns() - began_ns) // 1_000_000)
        if row.via == QUEUED:
            return prepared, await run_sync(gate.wait)
        told = None
        if callbacks.answerer.expected and prepared.ask.flow is None:
            await in_loop()
            told = await gate.asked(LiveTurn(prepared, store, row, lease, callbacks, began_ns))
        amount = amount_of(reached, told) if told is not None else None
        if amount is None:
            return prepared, await run_sync(gate.end, callbacks.cancel, told is not None)
        await run_sync(store.budgets.raise_budget, raised_to(reached, row.conversation, amount))


def planned_check(prepared: Prepared, store: Store, predicted: float | None) -> Check:
    """The check for a turn that is only planned. ``predicted``: what it would cost, if that is known."""
    price = _expected(prepared, store, predicted)
    return budget_check(budgets_of(prepared, store), price)


def budgets_of(prepared: Prepared, store: Store) -> tuple[Budget, ...]:
    """The budgets that count for the turn, with what was spent."""
    config, spent, conversation = prepared.config, store.budgets, prepared.conversation
    limits: list[tuple[Scope, str, float]] = [
        ("conversation", conversation.key, config.budgets.conversation),
        ("day", "", config.budgets.day),
        ("account", prepared.account_name, config.budget_under(prepared.account_name)),
    ]
    day, since_ms = local_day(store.clock_ms())
    of_day = spent.spent_since(since_ms) if any(limit for _, _, limit in limits[1:]) else []
    found = _of_flow(prepared, store)
    for scope, name, limit in limits:
        if not limit:
            continue
        if scope == "conversation":
            rows = spent.spent_in(conversation.id, conversation.key)
            raised = spent.raised_to(scope, conversation.id, "")
        else:
            rows = [row for row in of_day if scope == "day" or row.part == name]
            raised = spent.raised_to(scope, name, day)
        budget = Budget(
            scope=scope,
            name=name or day,
            day=None if scope == "conversation" else day,
            limit=limit,
            raised=raised,
            spent_on=_added(rows, _voice if scope == "conversation" else _key),
            running=fsum(row.running for row in rows if row.running is not None),
        )
        found.append(budget)
    return tuple(found)


def _of_flow(prepared: Prepared, store: Store) -> list[Budget]:
    """The budgets of the flow that the turn belongs to, and of its tier."""
    place = prepared.ask.flow
    if place is None:
        return []
    limits: list[tuple[Scope, str, int | None, float]] = [
        ("flow", place.flow, None, place.budget or prepared.config.budgets.flow),
        ("tier", tier_name(place.flow, place.tier), place.tier, place.tier_budget or 0),
    ]
    found = []
    for scope, name, tier, limit in limits:
        if limit:
            rows, raised = store.budgets.spent_by(place.flow, tier), store.budgets.raised_to(scope, name, "")
            running = fsum(row.running for row in rows if row.running is not None)
            spent_on = _added(rows, _voice)
            budget = Budget(
                scope=scope, name=name, limit=limit, raised=raised, spent_on=spent_on, running=running
            )
            found.append(budget)
    return found


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


class _Gate:
    """A turn whose budget was reached before it began."""

    def __init__(
        self, prepared: Prepared, store: Store, row: TurnRow, reached: ReachedBudget, waited_ms: int
    ) -> None:
        self._prepared, self._store, self._row, self._reached = prepared, store, row, reached
        self._waited_ms = waited_ms
        now_ms = clock.now_ms()
        questions = as_question(reached)
        self._question = OpenQuestion(
            id=clock.new_id(now_ms), kind="budget", questions=questions, budget=reached, asked=now_ms
        )
        self._event = Question(self._question.id, questions)

    def wait(self) -> Turn:
        """A queued run waits for the user."""
        queued = self._store.queued(self._row.id)
        if queued is None or not self._store.wait_for_user(queued, self._question.id, self._json()):
            raise NotWaiting(self._row.id)
        return msgspec.structs.replace(self._report(), state="needs_you", next=self._way_on())

    async def asked(self, live: LiveTurn) -> str | None:
        """What the user answers; None: nobody does, or the turn is cancelled."""
        replies, answer = live.callbacks.answerer, None
        replies.others = _Asking(live, self._question)
        live.audience(self._event)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_heed_cancel, live.callbacks.cancel, tasks.cancel_scope)
            answer = await replies.answer(self._event)
            tasks.cancel_scope.cancel()
        replies.others = None
        await run_sync(self._store.told, self._row.id, self._question.id)
        if answer is None or not answer.allow or live.cancelled:
            return None
        return next(iter(answer.answers.values()), STOP)

    def end(self, cancel: Cancel, decided: bool) -> Turn:
        """It never begins. ``decided``: the user wants it so. Otherwise the question stays."""
        if cancel.asked:
            from segue.turns.turn import NOT_BEGUN

            return withdraw(self._store, self._report(NOT_BEGUN))
        if decided:
            return withdraw(self._store, self._report())
        if self._prepared.ask.flow is not None:
            ended = withdraw(self._store, self._report())
            self._store.budgets.note_reached(self._row.id, self._question.id, self._json())
            return ended
        ended = withdraw(self._store, msgspec.structs.replace(self._report(), next=self._way_on()))
        if ended.state == "withdrawn":
            request = stored_request(self._prepared, self._row.message)
            self._store.budgets.ask_afterwards(self._row.id, self._question.id, self._json(), request)
        return ended

    def _report(self, failure: Failure | None = None) -> Turn:
        why = failure or Failure("budget", reached_in_words(self._reached))
        return report_withdrawn(self._prepared, why, self._waited_ms, self._row)

    def _way_on(self) -> str:
        return raise_command(self._row.id, self._reached)

    def _json(self) -> str:
        return msgspec.json.encode(self._question).decode()


class _Asking:
    """Asks the caller, and everybody else who sees the run."""

    def __init__(self, live: LiveTurn, question: OpenQuestion) -> None:
        self._live, self._question = live, question

    @property
    def patience_s(self) -> float:
        return self._live.patience_s

    async def ask(self, event: Question | Permission, answerer: Answerer | None) -> Answer:
        return await ask(self._live, event, answerer, self._question, self._keep)

    def _keep(self) -> None:
        live = self._live
        request = stored_request(live.prepared, live.row.message)
        live.store.budgets.keep_request(live.row.id, self._question.id, request)

    async def sent(self, event: Question | Permission) -> None: ...


async def _heed_cancel(cancel: Cancel, scope: anyio.CancelScope) -> None:
    while not cancel.asked:  # noqa: ASYNC110 - a signal may set it
        await anyio.sleep(LISTEN_S)
    scope.cancel()


def _look(prepared: Prepared, store: Store, row: TurnRow) -> tuple[tuple[Budget, ...], Expected]:
    return budgets_of(prepared, store), _expected(prepared, store, _predicted(prepared, store, row.message))


def _expected(prepared: Prepared, store: Store, predicted: float | None) -> Expected:
    if predicted is not None:
        return expected(predicted, None)
    return expected(None, store.budgets.last_cost(prepared.conversation.id, prepared.voice))


def _predicted(prepared: Prepared, store: Store, message: str) -> float | None:
    """What the turn will cost in the mode that it will use."""
    then = PlannedStore(store, prepared.conversation)
    if prepared.adopted is not None:
        from segue.turns.adopt import adoption_of

        then.adopt_messages(adoption_of(prepared, then, prepared.adopted))
    then.retry_message(message, prepared)
    gathered = gather(prepared, then)
    mode = ladder.decide(gathered.situation).mode
    return next((each.usd for each in predict(forecast(gathered, prepared)) if each.mode == mode), None)


def _added(rows: Iterable[CostRow], name: Callable[[CostRow], str]) -> tuple[SpentOn, ...]:
    costs: dict[str, list[float]] = {}
    for row in rows:
        if row.usd is not None:
            costs.setdefault(name(row), []).append(row.usd)
    return tuple(SpentOn(each, len(parts), fsum(parts)) for each, parts in costs.items())


def _voice(row: CostRow) -> str:
    return f"{row.name} ({row.part})" if row.part else row.name


def _key(row: CostRow) -> str:
    return row.name
