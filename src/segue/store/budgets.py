"""Budgets: what was spent, the amounts that the user has raised them to, and the questions about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from segue.core.model import Voice
from segue.core.question import OpenQuestion
from segue.store.database import Queries, Row, from_json
from segue.store.questions import QuestionRow
from segue.store.queue import Queue
from segue.store.records import Claim
from segue.system import clock

_SQL = Queries("budgets")
_QUESTIONS = Queries("questions")
_QUEUE = Queries("queue")


class CostRow(msgspec.Struct, frozen=True):
    """What some turns cost together. ``name``: their agent; of a day, the key of their conversation.
    ``part``: their role; of a day, their account."""

    name: str
    part: str
    turns: int
    """How many of them have a known cost."""
    usd: float | None
    reserved: float | None
    """What those that run now are expected to cost."""
    unpriced: int = 0
    """How many of those that run now have no known price."""


class RaisedTo(msgspec.Struct, frozen=True, kw_only=True):
    """The amount that a budget is raised to. ``name``: of a conversation or flow its id, of a day empty."""

    scope: str
    name: str
    day: str
    usd: float
    conversation: str | None = None


class Budgets(Queue):
    """Made by ``Store.budgets`` when it is needed."""

    def spent_in(self, conversation: str, key: str) -> list[CostRow]:
        """The costs of a conversation, also of those that had its key before and were removed."""
        return _costs(self._db.all(_SQL.spent_in, conversation=conversation, key=key))

    def spent_by(self, flow: str, tier: int | None = None) -> list[CostRow]:
        """The costs of a flow, or of one of its tiers."""
        return _costs(self._db.all(_SQL.spent_by, flow=flow, tier=tier))

    def spent_since(self, since_ms: int) -> list[CostRow]:
        """The costs of all turns that have ended since then, or have not ended."""
        return _costs(self._db.all(_SQL.spent_since, since_ms=since_ms))

    def last_cost(self, conversation: str, voice: Voice) -> float | None:
        """The cost of the last turn that answered and cost something: of the voice here, of the voice in any
        conversation, or of its agent."""
        of = {"agent": voice.agent, "role": voice.role}
        row = self._db.one(_SQL.last_cost, conversation=conversation, **of)
        row = row or self._db.one(_SQL.last_cost_of_voice, **of)
        row = row or self._db.one(_SQL.last_cost_of_agent, agent=voice.agent)
        return None if row is None else float(row[0])

    def has_answered(self, agent: str) -> bool:
        """Whether any turn of the agent has answered."""
        return self._db.one(_SQL.has_answered, agent=agent) is not None

    @contextmanager
    def alone_to_begin(self, lease: Claim) -> Iterator[bool]:
        """One transaction in which no other run begins, on any host. False: the lease is not ours any
        more."""
        with self._db.writing():
            self._db.lock_to_begin()
            yield self.renew_lease(lease)

    def reserved(self, run: str) -> float | None:
        """What was reserved for a run when it began; None: its price was not known."""
        row = self._db.one(_SQL.reserved, id=run)
        return None if row is None else row[0]

    def wait_for(self, run: str, budget: str) -> None:
        """Record the budget that a run waits for, until it begins."""
        self._db.run(_SQL.wait_for, id=run, budget=budget)

    def still_waits(self, run: str) -> tuple[bool, bool]:
        """Whether a run may still begin, and whether somebody has asked to cancel it."""
        row = self._db.one(_SQL.still_waits, id=run)
        # One that only stood still for long may have been taken for dead and withdrawn.
        return (False, False) if row is None else (row[0] in ("queued", "withdrawn"), row[1] is not None)

    def in_front(self, run: str, budget: str) -> list[str]:
        """The runs that wait longer for the same budget."""
        return [row[0] for row in self._db.all(_SQL.in_front, id=run, budget=budget)]

    def reservations(self) -> tuple[int, float, int]:
        """Another value if a budget may cover more than before: how many runs have begun, what is reserved
        for them, and when a budget was last raised."""
        row = self._db.one(_SQL.reservations)
        count, usd, raised_ms = row if row is not None else (0, 0.0, 0)
        return int(count), float(usd), int(raised_ms)

    def holders(self) -> list[str]:
        """The conversations with a run that has begun."""
        return [row[0] for row in self._db.all(_SQL.begun)]

    def raised_to(self, scope: str, name: str, day: str) -> float | None:
        row = self._db.one(_SQL.raised, scope=scope, name=name, day=day)
        return None if row is None else float(row[0])

    def raise_budget(self, to: RaisedTo) -> None:
        """Raise it. Other runs that wait for the same budget are back in line, and look at it again."""
        with self._db.writing():
            self._db.run(_SQL.raise_to, **msgspec.structs.asdict(to), raised_ms=clock.now_ms())
            for asked in self.asked() if to.day else ():
                if asked.state == "open" and _is_about(asked, to):
                    self._stop_waiting(asked.run)

    def raise_and_wake(self, asked: QuestionRow, answer: str, to: RaisedTo) -> bool:
        """Raise it, and put the run that waits for this back in line. False: somebody else has answered."""
        with self._db.writing():
            if not self._answered(asked, answer):
                return False
            self.raise_budget(to)
            self._db.run(_QUEUE.stop_waiting, id=asked.run)
            self._db.run(_QUESTIONS.needs_you, run=asked.run)
        return True

    def raise_and_carry(self, asked: QuestionRow, answer: str, to: RaisedTo, run: str) -> None:
        """Raise it for another run of a message that never began. ``Conflict``: somebody has answered."""
        with self._db.writing():
            self._carry(msgspec.structs.replace(asked, answer=answer), run)
            self.raise_budget(to)

    def ask_afterwards(self, run: str, name: str, question: str, request: str) -> None:
        """The run never began: its question can be answered all the same. ``request``: what to run then."""
        fields = {"run": run, "id": name, "question": question, "request": request}
        with self._db.writing():
            self._db.run(_SQL.drop_earlier, conversation=self._must(run).conversation)
            self._db.run(_SQL.ask_afterwards, **fields, asked_ms=self.clock_ms())
            self._db.run(_QUESTIONS.needs_you, run=run)

    def note_reached(self, run: str, name: str, question: str) -> None:
        """The run of a flow never began. The flow asks, so nobody answers the run."""
        with self._db.writing():
            self.ask_afterwards(run, name, question, "")
            self.drop_lapsed(run, name)

    def reached(self, run: str) -> OpenQuestion | None:
        """Why the run of a flow never began."""
        known = self.questions(run)
        return from_json(known[-1].question, OpenQuestion) if known else None

    def keep_request(self, run: str, name: str, request: str) -> None:
        """What to run if the process that asks dies before somebody answers."""
        self._db.run(_SQL.keep_request, run=run, id=name, request=request)

    def request_of(self, asked: QuestionRow) -> str | None:
        """What the run was asked for, if it never began."""
        row = self._db.one(_SQL.request_of, run=asked.run, id=asked.id)
        return None if row is None else row[0]

    def _answered(self, asked: QuestionRow, answer: str) -> bool:
        change: dict[str, Any] = {"run": asked.run, "id": asked.id, "before": "open"}
        return self._db.run(_QUESTIONS.change, **change, state="told", answer=answer) == 1


def _is_about(asked: QuestionRow, to: RaisedTo) -> bool:
    """Whether it is a question about this budget."""
    question = from_json(asked.question, OpenQuestion)
    reached = question.budget if question is not None else None
    if reached is None or (reached.scope, reached.day) != (to.scope, to.day):
        return False
    return reached.scope == "day" or reached.name == to.name


def _costs(rows: list[Row]) -> list[CostRow]:
    return [CostRow(*row) for row in rows]
