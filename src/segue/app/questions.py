"""Open questions: what agents ask the user, and the answers, each given exactly once.

An open question is part of the run's state, so that a client that comes later sees it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
from anyio.to_thread import run_sync

from segue.agents.base import Answer
from segue.app.ready_turn import NOBODY
from segue.app.run_shapes import OpenQuestion, ToolAnswer
from segue.core.errors import Conflict, Gone, Misuse, NotFound
from segue.core.events import Permission, Question
from segue.store.store import Store
from segue.system import clock

ALLOWED, DENIED = Answer(True), Answer(False, "the user does not allow it.")


class Questions:
    """The open questions of the runs of this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, tuple[str, asyncio.Future[Answer]]] = {}
        self._one: dict[str, asyncio.Lock] = {}
        self._asked: dict[str, set[str]] = {}
        """The ids of all questions of a run, until it has ended."""

    def asker(self, run: str) -> Callable[[Question | Permission], Awaitable[Answer]]:
        """Answers the questions of a run, one at a time, with what ``answer`` is called with."""

        async def ask(event: Question | Permission) -> Answer:
            async with self._one.setdefault(run, asyncio.Lock()):
                return await self._ask(run, event)

        return ask

    async def _ask(self, run: str, event: Question | Permission) -> Answer:
        question = msgspec.json.encode(_open_question(event)).decode()
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[run] = (question, waiting)
        self._asked.setdefault(run, set()).update(filter(None, (event.id, event.tool_id)))
        try:
            await run_sync(self._store.ask, run, question)
            return await waiting
        finally:
            del self._open[run]
            with anyio.CancelScope(shield=True):  # nobody answered in time: the run goes on
                await run_sync(self._store.answered, run, question)

    async def answer(self, run: str, given: ToolAnswer) -> None:
        """Answer the open question of a run.

        Raises ``NotFound`` if nothing with that id was asked, ``Conflict`` if it has its answer, ``Gone`` if
        the run is over.
        """
        row = await run_sync(self._store.queued, run)
        if row is None:
            raise NotFound(f"there is no run {run}")
        if row.state not in ("running", "needs_you"):
            raise Gone(f"the run {run} is {row.state}; its questions cannot be answered any more")
        asked = msgspec.json.decode(row.question, type=OpenQuestion) if row.question else None
        if asked is None or given.tool_use_id not in (asked.id, asked.tool_use_id):
            if given.tool_use_id in self._asked.get(run, ()):
                raise Conflict("this question has been answered")
            raise NotFound(f"the run {run} has not asked {given.tool_use_id}")
        question, waiting = self._open.get(run, ("", None))
        if waiting is None:
            raise Conflict("another process runs this turn; answer the question there")
        answer = _answer(asked, given)
        if waiting.done() or not await run_sync(self._store.answered, run, question):
            raise Conflict("this question has been answered")
        if not waiting.done():
            waiting.set_result(answer)

    def forget(self, run: str) -> None:
        """The run has ended."""
        self._asked.pop(run, None)
        self._one.pop(run, None)


def read_question(json: str | None) -> OpenQuestion | None:
    """The open question that is stored with a run."""
    return None if json is None else msgspec.json.decode(json, type=OpenQuestion)


def _open_question(event: Question | Permission) -> OpenQuestion:
    if isinstance(event, Question):
        return OpenQuestion(
            id=event.id,
            kind="question",
            tool_use_id=event.tool_id,
            questions=event.questions,
            asked=clock.now_ms(),
        )
    return OpenQuestion(
        id=event.id,
        kind="permission",
        tool_use_id=event.tool_id,
        tool=event.tool,
        input=event.input,
        asked=clock.now_ms(),
    )


def _answer(asked: OpenQuestion, given: ToolAnswer) -> Answer:
    if asked.kind == "permission":
        if given.allow is None:
            raise Misuse("a permission takes allow: true or false")
        return ALLOWED if given.allow else Answer(False, given.content or DENIED.message)
    if given.allow is False:
        return Answer(False, given.content or NOBODY.message)
    if given.answers is not None:
        return Answer(True, answers={name: _text(value) for name, value in given.answers.items()})
    if given.content is not None:
        return Answer(True, answers=dict.fromkeys(_names(asked.questions), given.content))
    raise Misuse("a question takes answers, or content")


def _names(questions: Any) -> list[str]:
    """The questions that were asked, if they are in the known format."""
    if not isinstance(questions, list):
        return [""]
    return [str(each.get("question", "")) for each in questions if isinstance(each, dict)] or [""]


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else ", ".join(map(str, value))
        if isinstance(value, list)
        else str(value)
    )
