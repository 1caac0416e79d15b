"""Answers what an agent asks while it runs, without holding up anything else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from segue.agents.base import Agent, Answer
from segue.core.events import Permission, Question
from segue.turns.runner import Running

Answerer = Callable[[Question | Permission], Awaitable[Answer]]

PATIENCE_S = 30 * 60.0
"""So long a question waits for its answer; then the agent is told that nobody gave one."""
NOBODY = Answer(False, "nobody can answer now. Decide for yourself, and say what you assumed.")
REFUSED = Answer(False, "this run may not use the tool. Go on without it, and say what is missing.")


class Answering:
    """Each question waits in a task of its own, so that cancelling and time limits work meanwhile.

    What goes back is built from the event as it was read, not as it is shown: it must be unaltered. If the
    answerer fails, the run is cancelled and its exception comes out of the block.
    """

    def __init__(self, agent: Agent, running: Running, answerer: Answerer | None) -> None:
        self._agent, self._running, self._answerer = agent, running, answerer
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
        answer = NOBODY if isinstance(event, Question) else REFUSED
        try:
            if self._answerer is not None:
                with anyio.move_on_after(PATIENCE_S):
                    answer = await self._answerer(event)
            await self._running.send(self._agent.reply(event, answer))
        except Exception as failure:
            self._failure = failure
            self._running.cancel()
