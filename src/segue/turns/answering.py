"""Answers what an agent asks while it runs, without holding up anything else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from segue.agents.base import Agent, Answer
from segue.core.events import Permission, Question
from segue.turns.runner import Running
from segue.turns.telling import Guard

Answerer = Callable[[Question | Permission], Awaitable[Answer]]

PATIENCE_S = 30 * 60.0
"""So long a question waits for its answer; then the agent is told that nobody gave one."""
NOBODY = Answer(False, "nobody can answer now. Decide for yourself, and say what you assumed.")
REFUSED = Answer(False, "this run may not use the tool. Go on without it, and say what is missing.")


class Replies(Guard):
    """The caller's function that answers. If it raises, or what it returns is no answer, the agent is told
    that nobody answers, and goes on."""

    def __init__(self, answerer: Answerer | None) -> None:
        super().__init__("answer")
        self._answerer = answerer

    async def reply(self, agent: Agent, event: Question | Permission) -> bytes:
        """The line that goes back to the agent."""
        answer = NOBODY if isinstance(event, Question) else REFUSED
        if self._answerer is None or self.failed is not None:
            return agent.reply(event, answer)
        try:
            with anyio.move_on_after(PATIENCE_S):
                return agent.reply(event, await self._answerer(event))
        except Exception as error:
            self.note(error)
        return agent.reply(event, answer)


class Answering:
    """Each question waits in a task of its own, so that cancelling and time limits work meanwhile.

    What goes back is built from the event as it was read, not as it is shown: it must be unaltered.
    """

    def __init__(self, agent: Agent, running: Running, asked: Replies) -> None:
        self._agent, self._running, self._asked = agent, running, asked
        self._failure: Exception | None = None
        self._tasks: TaskGroup

    async def __aenter__(self) -> Answering:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        if error is None and self._failure is not None:
            raise self._failure

    def take(self, event: Question | Permission) -> None:
        self._tasks.start_soon(self._answer, event)

    async def _answer(self, event: Question | Permission) -> None:
        try:
            await self._running.send(await self._asked.reply(self._agent, event))
        except Exception as failure:  # ours: the agent would wait for ever
            self._failure = failure
            self._running.cancel()
