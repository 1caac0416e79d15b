"""Answers to a flow whose budget was reached: it is raised, and the turn tried again; or that is given up."""

from __future__ import annotations

import msgspec

from segue.app.workspace import Workspace
from segue.core.budget import amount_of, in_dollars, is_enough, reached_in_words
from segue.core.errors import Conflict, Gone, Misuse
from segue.core.flow import FlowQuestion
from segue.store.flow_records import FlowRow, StepRow
from segue.system import clock
from segue.turns.budget import raised_to

STOP = "stop"


def answer_budget(workspace: Workspace, row: FlowRow, step: StepRow, text: str) -> None:
    """``text``: the amount that the budget is raised to, or ``stop``. The first answer counts."""
    store = workspace.store
    reached = msgspec.json.decode(step.question or "{}", type=FlowQuestion).budget
    if reached is None:
        raise Gone("it is not known which budget was reached")
    if text.strip().lower() == STOP:
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
        raise Conflict("this question has been answered")
