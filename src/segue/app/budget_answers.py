"""Answers to questions about budgets: the budget is raised and the run goes on, or the run stops."""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.agents.base import Answer
from segue.app.run_shapes import OpenQuestion, ToolAnswer
from segue.app.workspace import Workspace
from segue.core.budget import STOP, ReachedBudget, amount_of, in_dollars, is_enough, reached_in_words
from segue.core.errors import Conflict, Gone, Misuse
from segue.core.flow import FlowQuestion
from segue.core.outcome import Failure
from segue.core.question import question_names
from segue.store.budgets import RaisedTo
from segue.store.flow_records import FlowRow, StepRow
from segue.store.questions import QuestionRow
from segue.store.records import QUEUED, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.budget import raised_to
from segue.turns.message import enqueue
from segue.turns.prepare import prepare
from segue.turns.queued_run import take_out
from segue.turns.request import QueuedRequest

GIVE_UP = "stop"
"""The answer that gives up the turn of a flow."""
ANSWERED = "this question has been answered"
HOW = "a budget takes budget: the amount that it is raised to, in dollars; or allow: false"


def answer_budget(
    workspace: Workspace,
    row: TurnRow,
    asked: QuestionRow,
    question: OpenQuestion,
    given: ToolAnswer,
    *,
    gone: bool,
) -> str | None:
    """Returns the new run of a message whose run ended before it began, or whose process is ``gone``. Raises
    as ``answer``."""
    reached = question.budget
    if reached is None:
        raise Gone("it is not known which budget was reached")
    amount = _amount(reached, given)
    if gone:
        return _once_more(workspace, row, asked, reached, amount)
    if row.via != QUEUED:
        _tell(workspace.store, row, asked, question, amount)
    elif amount is None:
        if not _stop(workspace, row, reached):
            raise Conflict(ANSWERED)
    else:
        to = raised_to(reached, row.conversation, amount)
        if not workspace.store.budgets.raise_and_wake(asked, _json(to), to):
            raise Conflict(ANSWERED)
    return None


def _amount(reached: ReachedBudget, given: ToolAnswer) -> float | None:
    """The amount that it is raised to; None: it is not. Raises ``Misuse`` if that is not enough."""
    if given.allow is False:
        return None
    text = given.content
    if given.answers:
        text = str(next(iter(given.answers.values())))
    if given.always or given.allow or (given.budget is None and text is None):
        raise Misuse(HOW)
    if given.budget is None and text == STOP:
        return None
    amount = given.budget if given.budget is not None else amount_of(reached, text or "")
    if amount is None or not is_enough(reached, amount):
        least = in_dollars(reached.suggested)
        raise Misuse(f"that is not enough: {reached_in_words(reached)}; {least} would do")
    return amount


def _stop(workspace: Workspace, row: TurnRow, reached: ReachedBudget) -> bool:
    """The run never begins. False: it has begun, or is over."""
    known = workspace.store.conversation_by_id(row.conversation)
    failure = Failure("budget", f"{reached_in_words(reached)}; you stopped it")
    hold = workspace.config.queue.on_failure == "hold" and row.via == QUEUED
    return take_out(workspace.store, row, known.key if known is not None else "", failure, hold=hold)


def _tell(
    store: Store, row: TurnRow, asked: QuestionRow, question: OpenQuestion, amount: float | None
) -> None:
    """Tell the process that waits for the answer."""
    words = STOP if amount is None else f"${amount:.9f}"
    told = Answer(True, answers=dict.fromkeys(question_names(question.questions), words))
    if not store.answer(row.id, asked.id, msgspec.json.encode(told).decode()):
        raise Conflict(ANSWERED)


def _once_more(
    workspace: Workspace, row: TurnRow, asked: QuestionRow, reached: ReachedBudget, amount: float | None
) -> str | None:
    """Run the message after all, as it was asked for then."""
    store = workspace.store
    if amount is None:
        if not (store.drop_lapsed(row.id, asked.id) or _stop(workspace, row, reached)):
            raise Conflict(ANSWERED)
        return None
    stored = store.budgets.request_of(asked)
    text, known = store.texts([row.message]).get(row.message), store.conversation_by_id(row.conversation)
    if stored is None or text is None or known is None:
        raise Gone(f"the message of the run {row.id} is gone")
    ask = msgspec.json.decode(stored, type=QueuedRequest).ask
    ask = msgspec.structs.replace(ask, conversation=known.key, prompt=text, key=None, via="")
    prepared = prepare(ask, workspace.env, store, Path(ask.here))
    prepared = msgspec.structs.replace(prepared, transport=workspace.transport)
    to = raised_to(reached, row.conversation, amount)
    store.budgets.raise_and_carry(asked, _json(to), to, prepared.run)
    _stop(workspace, row, reached)
    return enqueue(prepared, store, row.message).id


def _json(to: RaisedTo) -> str:
    return msgspec.json.encode(to).decode()


def answer_flow_budget(workspace: Workspace, row: FlowRow, step: StepRow, text: str) -> None:
    """A turn of a flow waits. ``text``: the amount that the budget is raised to, or ``stop``."""
    store = workspace.store
    reached = msgspec.json.decode(step.question or "{}", type=FlowQuestion).budget
    if reached is None:
        raise Gone("it is not known which budget was reached")
    if text.strip().lower() == GIVE_UP:
        answered = store.flows.keep_budget(row.id, step.key)
    else:
        amount = amount_of(reached, text)
        if amount is None or not is_enough(reached, amount):
            least = in_dollars(reached.suggested)
            raise Misuse(
                f"answer with an amount in dollars, or stop: {reached_in_words(reached)}; {least} is enough"
            )
        conversation = store.conversation(step.conversation or "")
        to = raised_to(reached, conversation.id if conversation is not None else "", amount)
        answered = store.flows.raise_budget(row.id, step.key, to, clock.new_id())
    if not answered:
        raise Conflict(ANSWERED)
