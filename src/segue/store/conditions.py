"""How conversations are doing: what they ask, wait for and failed with, and how full their context is.

Each question takes one query, however many conversations there are.
"""

from __future__ import annotations

import msgspec

from segue.core.turn import FailureShown
from segue.core.usage import Context
from segue.store.database import Queries, Row, from_json
from segue.store.questions import QuestionRow
from segue.store.turns import Turns

_SQL = Queries("conditions")
_QUESTIONS = Queries("questions")


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation is doing."""

    asked: QuestionRow | None = None
    """The first question that can be answered."""
    until_ms: int | None = None
    """Until when its first parked run waits."""
    queued: int = 0
    """How many runs wait."""
    failure: FailureShown | None = None
    """Of its newest turn."""
    context: Context | None = None
    """Of the newest turn that has one."""


class _Told(msgspec.Struct, frozen=True):
    """What is needed of a turn's report. The rest is not decoded."""

    failure: FailureShown | None = None
    context: Context = Context()


class Conditions(Turns):
    """Of one conversation, or of all."""

    def conditions(self, conversation_id: str | None = None) -> dict[str, Condition]:
        """By conversation. One about which there is nothing to say may be missing."""
        with self._db.reading():
            asked = self._first_asked(conversation_id)
            waiting = {row[0]: row[1:] for row in self._of(conversation_id, _SQL.waiting, _SQL.waiting_in)}
            reports = self._of(conversation_id, _SQL.newest, _SQL.newest_in)
            newest = {row[0]: from_json(row[1], _Told) for row in reports}
            unknown = [each for each, told in newest.items() if told is None or told.context.used is None]
            before = {row[0]: from_json(row[1], _Told) for row in self._db.among(_SQL.loaded, unknown)}
        found = {}
        for each in {*asked, *waiting, *newest}:
            told = newest.get(each) or _Told()
            loaded = told if told.context.used is not None else before.get(each) or _Told()
            queued, until_ms = waiting.get(each, (0, None))
            found[each] = Condition(
                asked=asked.get(each),
                until_ms=until_ms,
                queued=queued,
                failure=told.failure,
                context=loaded.context if loaded.context.used is not None else None,
            )
        return found

    def _of(self, conversation_id: str | None, every: str, one: str) -> list[Row]:
        if conversation_id is None:
            return self._db.all(every)
        return self._db.all(one, conversation=conversation_id)

    def _first_asked(self, conversation_id: str | None) -> dict[str, QuestionRow]:
        found: dict[str, QuestionRow] = {}
        for row in self._of(conversation_id, _QUESTIONS.asked, _QUESTIONS.asked_in):
            question = QuestionRow(*row)
            found.setdefault(question.conversation, question)
        return found
