"""``Segue.runs``: runs that are queued and followed instead of awaited.

What waits outlives the process that queued it: the next daemon on the same store runs it. What runs is
cancelled when its ``Segue`` is closed, as with ``Segue.run``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Unpack

from anyio.to_thread import run_sync

from segue.app import questions, run_orders, runs
from segue.app.ready_turn import Options, plan
from segue.app.run_shapes import FeedEvent, RunOrder, RunShown, ToolAnswer
from segue.app.subscriptions import FeedItem
from segue.core.errors import Gone, NotFound
from segue.core.ids import conversation_key
from segue.core.turn import State
from segue.store.records import Receipt

if TYPE_CHECKING:
    from segue.app.segue import Segue
    from segue.turns.why import Why


class Runs:
    """A run is named by its id."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def submit(
        self,
        key: str,
        order: RunOrder,
        *,
        run_key: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> RunShown:
        """Queue a run of the conversation ``key`` and return at once. The same ``run_key`` again returns the
        same run.

        ``env``: the environment that the agent gets instead of this ``Segue``'s. It is not stored: if this
        process dies before the run starts, the next one gives it its own.
        """
        workspace, key, body = self._segue.workspace, conversation_key(key), None
        if run_key is not None:
            body = await run_sync(runs.digest_of, order)
            known = await run_sync(run_orders.run_of_receipt, workspace, key, Receipt(key=run_key, body=body))
            if known is not None:  # what it needed may be gone by now: it is not checked again
                return await self.show(known)
        prepared, retried = await run_sync(run_orders.prepare_order, workspace, key, order, run_key, env)
        run = await self._segue.service.engine.submit(
            prepared, retry_message=retried, not_before_ms=order.not_before, env=env, body=body
        )
        return await self.show(run)

    async def plan(
        self, key: str, text: str = "", *, retry_of: str | None = None, **options: Unpack[Options]
    ) -> Why:
        """What ``submit`` would do, as ``Segue.why`` tells it. Without ``cwd``, in the directory of the
        conversation."""
        cwd = options.get("cwd")
        there = partial(run_orders.place, self._segue.workspace, key, str(cwd) if cwd else None, None)
        return await run_sync(lambda: plan(there(), key, text, options, retry_of=retry_of))

    async def continue_session(
        self,
        session: str | None,
        order: RunOrder,
        *,
        key: str | None = None,
        run_key: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> RunShown:
        """Queue a run that continues a native session, and return at once. As ``sessions.continue_``: None is
        the newest one of the directory, and ``key`` is that of the conversation, if it is a new one. The same
        ``run_key`` again returns the same run."""
        named = conversation_key(key) if key is not None else None
        body = await run_sync(runs.digest_of, order) if run_key is not None else None
        receipt = Receipt(key=run_key, body=body) if run_key is not None and body is not None else None
        prepared = await run_sync(
            run_orders.prepare_continuation, self._segue.workspace, session, named, order, receipt, env
        )
        if isinstance(prepared, str):
            return await self.show(prepared)
        run = await self._segue.service.engine.submit(
            prepared, not_before_ms=order.not_before, env=env, body=body
        )
        return await self.show(run)

    async def show(self, run: str) -> RunShown:
        """The run as it is now."""
        return await run_sync(runs.show_run, self._segue.workspace, run)

    async def event(self, run: str, n: int) -> FeedEvent:
        """One event of a run, whole: the ``n``-th."""
        from segue.app.conversation_pages import event

        return await run_sync(event, self._segue.workspace, run, n)

    async def ls(
        self, *, states: Sequence[State] = (), key: str | None = None, limit: int = runs.MOST
    ) -> list[RunShown]:
        """The runs in these states, the newest first, of one conversation or of all. Without states: what
        waits or runs, and what has ended with a question that can still be answered."""
        return await run_sync(runs.ls, self._segue.workspace, states, key, limit)

    async def queue(self, key: str | None = None) -> list[RunShown]:
        """The runs that wait, in their order; of one conversation, or of all."""
        return await run_sync(runs.queue, self._segue.workspace, key)

    async def edit(self, run: str, text: str) -> RunShown:
        """Change the message of a run that waits."""
        return await run_sync(runs.edit_queued, self._segue.workspace, run, text)

    async def move(self, run: str, place: int) -> list[RunShown]:
        """Give a run that waits another place in its line; 1 is next. Returns the line."""
        return await run_sync(runs.move_queued, self._segue.workspace, run, place)

    async def remove(self, run: str) -> RunShown:
        """Take a run that waits out of the queue. Its message is kept, and no agent sees it."""
        await run_sync(runs.waiting, self._segue.workspace, run)
        return await self.cancel(run)

    async def cancel(self, run: str) -> RunShown:
        """End a run, whichever process runs it. One that waits is withdrawn."""
        row = await run_sync(self._segue.workspace.store.turn, run)
        if row is None:
            raise NotFound(f"there is no run {run}")
        shown = await self.show(run)
        if not await self._segue.service.engine.cancel(row):
            raise Gone(f"the run {run} is {shown.state}")
        return await self.show(run)

    async def now(self, run: str) -> RunShown:
        """Start a parked run now instead of at its time. What a failed run holds up goes on.

        ``Conflict``: another run comes before it."""
        queued = await run_sync(runs.waiting, self._segue.workspace, run)
        await self._segue.service.engine.wake(queued)
        return await self.show(run)

    async def answer(self, run: str, given: ToolAnswer) -> RunShown:
        """Answer a question of a run, exactly once, whichever process runs it.

        If the question has lapsed, the answer is sent as the next message: ``continued_by`` is its run.
        """
        new = await run_sync(questions.answer, self._segue.workspace, run, given)
        await self._segue.service.engine.accept(run if new is None else new)
        return await self.show(run)

    def watch(self, run: str | None = None, after: str | None = None) -> AsyncGenerator[FeedItem]:
        """What changes from now on, or since the event with the id ``after``: everything, or what belongs to
        one run, from its beginning until it is settled. The first item says whether anything was missed."""
        return self._segue.service.subscriptions.subscribe(after, run)
