"""What agents ask while they work, and what the user has allowed them for good.

A question is answered once, by whoever is first. One that its run left unanswered has lapsed: the message of
another run can still answer it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.core.errors import Conflict
from segue.core.model import Voice
from segue.store.database import Queries
from segue.store.settlement import Settling
from segue.system import clock

_SQL = Queries("questions")


class QuestionRow(msgspec.Struct, frozen=True):
    """What an agent asked in a run, as JSON, and the answer, as JSON."""

    run: str
    id: str
    conversation: str
    question: str
    state: Literal["open", "answered", "told", "lapsed", "over"]
    """``answered``: the agent has not been told yet. ``lapsed``: the run ended without an answer."""
    answer: str | None
    next: str | None
    """The run whose message answers it."""
    asked_ms: int


class AllowedTool(msgspec.Struct, frozen=True):
    """A tool that a voice may use, because the user answered "always" when it asked."""

    conversation: str
    agent: str
    role: str
    tool: str


class Questions(Settling):
    """Open, answered and lapsed questions; and the tools that need no permission any more."""

    def ask(self, run: str, name: str, question: str) -> bool:
        """The run waits for the user. ``question``: JSON. False: it is over."""
        with self._db.writing():
            self._ask(run, name, question)
            return self._db.run(_SQL.needs_you, run=run) == 1

    def answer(self, run: str, name: str, answer: str | None) -> bool:
        """Answer an open question (JSON; None: nobody will). False: it is not open any more."""
        state = "over" if answer is None else "answered"
        with self._db.writing():
            if not self._db.run(_SQL.change, run=run, id=name, before="open", state=state, answer=answer):
                return False
            self._db.run(_SQL.needs_you, run=run)
        return True

    def told(self, run: str, name: str) -> None:
        """The agent has been told the answer."""
        self._db.run(_SQL.tell, run=run, id=name)

    def drop_lapsed(self, run: str, name: str) -> bool:
        """A lapsed question is not answered. False: it is not lapsed any more."""
        with self._db.writing():
            dropped = self._db.run(_SQL.change, run=run, id=name, before="lapsed", state="over", answer=None)
            self._db.run(_SQL.needs_you, run=run)
        return dropped == 1

    def questions(self, run: str) -> list[QuestionRow]:
        """All questions of a run, in their order."""
        return [QuestionRow(*row) for row in self._db.all(_SQL.questions, run=run)]

    def carried(self, run: str) -> list[QuestionRow]:
        """The lapsed questions that the message of this run answers."""
        return [QuestionRow(*row) for row in self._db.all(_SQL.carried, next=run)]

    def asked(self, conversation: str | None = None) -> list[QuestionRow]:
        """The questions that can be answered; of one conversation, or of all."""
        rows = (
            self._db.all(_SQL.asked)
            if conversation is None
            else self._db.all(_SQL.asked_in, conversation=conversation)
        )
        return [QuestionRow(*row) for row in rows]

    def allow_tool(self, conversation: str, voice: Voice, tool: str) -> None:
        """From now on the voice may use the tool without asking."""
        named = {"conversation": conversation, "agent": voice.agent, "role": voice.role, "tool": tool}
        with self._db.writing():
            self._db.run(_SQL.allow_tool, **named, allowed_ms=clock.now_ms())
            self._touch(conversation)

    def disallow_tool(self, conversation: str, tool: str) -> bool:
        """Take that back. False: it was not allowed."""
        with self._db.writing():
            self._touch(conversation)
            return self._db.run(_SQL.disallow_tool, conversation=conversation, tool=tool) > 0

    def disallow_all(self, conversation: str, voice: Voice) -> None:
        """Take back everything that the voice may use."""
        named = {"conversation": conversation, "agent": voice.agent, "role": voice.role}
        if self._db.run(_SQL.disallow_all, **named):
            self._touch(conversation)

    def allowed_tools(self, conversation: str | None = None) -> list[AllowedTool]:
        """The tools that were allowed for good, with the voice that may use each; of one conversation, or of
        all."""
        rows = (
            self._db.all(_SQL.allowed_tools)
            if conversation is None
            else self._db.all(_SQL.allowed_tools_in, conversation=conversation)
        )
        return [AllowedTool(*row) for row in rows]

    def always_allowed(self, conversation: str, voice: Voice) -> tuple[str, ...]:
        """The tools that the voice may use for good."""
        allowed = self.allowed_tools(conversation)
        return tuple(each.tool for each in allowed if Voice(each.agent, each.role) == voice)

    def _carry(self, asked: QuestionRow, run: str) -> None:
        if not self._db.run(_SQL.carry, run=asked.run, id=asked.id, next=run, answer=asked.answer):
            raise Conflict("this question has been answered")
        self._db.run(_SQL.needs_you, run=asked.run)

    def _ask(self, run: str, name: str, question: str) -> None:
        self._db.run(_SQL.ask, run=run, id=name, question=question, asked_ms=self.clock_ms())

    def _change_question(self, run: str, name: str, before: str, state: str) -> bool:
        changed = self._db.run(_SQL.change, run=run, id=name, before=before, state=state, answer=None)
        return changed == 1

    def _close_questions(self, run: str) -> None:
        """Nobody has to answer them any more."""
        for each in self.questions(run):
            self._db.run(_SQL.change, run=run, id=each.id, before="open", state="over", answer=None)
