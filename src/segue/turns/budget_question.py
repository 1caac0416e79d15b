"""The question to the user when too much of a budget is spent for a run to begin.

A queued run waits for the answer. Who waits at a terminal is asked there. Otherwise the run ends without
having begun, and the question stays.
"""

from __future__ import annotations

import anyio
import msgspec

from segue.agents.base import Answer
from segue.core.budget import (
    STOP,
    ReachedBudget,
    amount_of,
    as_question,
    raise_command,
    reached_in_words,
)
from segue.core.events import Permission, Question
from segue.core.outcome import Failure
from segue.core.question import OpenQuestion
from segue.core.turn import Turn
from segue.runner.attempt import Answerer, Cancel
from segue.store.records import QUEUED, NotWaiting, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.loop import in_loop, run_sync
from segue.turns.budget import raised_to
from segue.turns.live_turn import StoredTurn
from segue.turns.message import stored_request, withdraw
from segue.turns.prepare import Prepared
from segue.turns.questions import ask
from segue.turns.report import report_withdrawn

LISTEN_S = 0.1
"""How often to look whether the turn was cancelled while the user is asked."""


class ReachedLimit:
    """A turn of whose budget too much was spent before it began: the user is asked."""

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

    async def settle(self, live: StoredTurn) -> Turn | None:
        """Ask. None: the budget was raised, so the run may try again. Otherwise the report of the run, which
        has not begun."""
        if self._row.via == QUEUED:
            return await run_sync(self.wait)
        told, callbacks = None, live.callbacks
        if callbacks.answerer.expected and self._prepared.ask.flow is None:
            await in_loop()
            told = await self.asked(live)
        amount = amount_of(self._reached, told) if told is not None else None
        if amount is None:
            return await run_sync(self.end, callbacks.cancel, told is not None)
        to = raised_to(self._reached, self._row.conversation, amount)
        await run_sync(self._store.budgets.raise_budget, to)
        return None

    def wait(self) -> Turn:
        """A queued run waits for the user."""
        queued = self._store.queued(self._row.id)
        if queued is None or not self._store.wait_for_user(queued, self._question.id, self._json()):
            raise NotWaiting(self._row.id)
        return msgspec.structs.replace(self._report(), state="needs_you", next=self._way_on())

    async def asked(self, live: StoredTurn) -> str | None:
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

    def __init__(self, live: StoredTurn, question: OpenQuestion) -> None:
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
