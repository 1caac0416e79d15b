"""Turns that are ready to start, and turns that run. If the caller of a turn goes away, it is cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.to_thread import run_sync

from segue.agents.base import Answer
from segue.app.workspace import Workspace
from segue.core.errors import SegueError
from segue.core.turn import Mode, Turn
from segue.runner.attempt import NOBODY, REFUSED, Answerer, Cancel, Listener
from segue.turns import changes
from segue.turns.prepare import Prepared, prepare
from segue.turns.request import Options, TurnRequest, request_from_options
from segue.turns.turn import run

if TYPE_CHECKING:
    from segue.turns.why import Why

__all__ = [
    "NOBODY",
    "REFUSED",
    "Answer",
    "Answerer",
    "Cancel",
    "Listener",
    "NoticeListener",
    "Options",
    "ReadyTurn",
    "RunningTurns",
    "cancel_and_wait",
    "ready_retry",
    "ready_turn",
    "wait",
]

NoticeListener = Callable[[str], None]
CLOSE_S = 30.0
"""How long closing ``Segue`` waits for cancelled turns to end."""


class ReadyTurn:
    """A turn that can start: everything that can be checked before it starts has been checked."""

    def __init__(self, workspace: Workspace, prepared: Prepared, again: str | None = None) -> None:
        self.workspace, self.prepared, self.again = workspace, prepared, again

    @property
    def key(self) -> str:
        return self.prepared.ask.conversation

    @property
    def agent(self) -> str:
        return self.prepared.agent.facts.name

    @property
    def label(self) -> str:
        """The agent's name in sentences."""
        return self.prepared.agent.facts.label

    @property
    def mentions(self) -> tuple[str, ...]:
        """Parts of the configuration that have no effect."""
        return self.prepared.config.mentions

    @property
    def model_from(self) -> str | None:
        """The project's file that chose the model, if that file is not trusted."""
        return self.prepared.model_from

    @property
    def directory(self) -> str | None:
        """The turn's directory, if a command that continues has to name it with ``--cwd``."""
        return self.prepared.named

    @property
    def answers(self) -> bool:
        """Whether the agent's questions can be answered."""
        return self.prepared.ask.answers

    async def run(
        self,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
    ) -> Turn:
        return await run(
            self.prepared,
            self.workspace.store,
            on_event=on_event,
            on_notice=on_notice,
            answer=answer,
            cancel=cancel,
            again=self.again,
        )

    def why(self, new_bytes: int) -> Why:
        """What the turn would do, and why. ``new_bytes``: the size of the message."""
        from segue.turns.why import why

        return why(self.prepared, self.workspace.store, new_bytes)

    def mode(self) -> Mode | None:
        """The turn's mode; None if it is not decided yet, or if the store is unavailable."""
        try:
            row = self.workspace.store.turn(self.prepared.run)
        except SegueError:
            return None
        return row.mode if row is not None else None

    def number_of(self, turn: Turn) -> int | None:
        """The n of ``#n`` of the message it answers; None: it has none, or the store is unavailable."""
        store = self.workspace.store
        try:
            row = store.turn(turn.run)
            ids = [message.id for message in store.messages(row.conversation)] if row is not None else []
        except SegueError:
            return None
        return ids.index(row.message) + 1 if row is not None and row.message in ids else None


def ready_turn(
    workspace: Workspace,
    key: str,
    text: str,
    options: Options,
    *,
    answers: bool = False,
    may_be_empty: bool = False,
    repeatable: bool = False,
) -> ReadyTurn:
    """Prepare a turn. ``answers``: the agent's questions can be answered. ``repeatable``: after a temporary
    failure, the same text retries this turn."""
    request = request_from_options(key, text, options, may_be_empty=may_be_empty, answers=answers)
    if repeatable:
        request = msgspec.structs.replace(request, via="run")
    return ReadyTurn(workspace, _prepared(workspace, request))


def ready_retry(
    workspace: Workspace, key: str, named: str | None, options: Options, *, answers: bool = False
) -> ReadyTurn:
    """Prepare a retry of a user message (None: the last one), for the agent that it was sent to before."""
    store, conversation = workspace.store, workspace.conversation(key)
    message = changes.find_message(store, conversation, named, "user")
    if not options.get("fork"):  # which messages a fork has is known only after it is made
        changes.may_rerun(store, conversation.id, message.id, options.get("cut", False))
    text = store.texts([message.id])[message.id]
    request = request_from_options(key, text, changes.as_said(store, message, options), answers=answers)
    return ReadyTurn(workspace, _prepared(workspace, request), message.id)


def _prepared(workspace: Workspace, request: TurnRequest) -> Prepared:
    if request.system_prompt_file is not None:
        file = str(workspace.cwd / request.system_prompt_file)
        request = msgspec.structs.replace(request, system_prompt_file=file)
    return prepare(request, workspace.env, workspace.store, workspace.cwd, workspace.config)


class RunningTurns:
    """Starts turns as separate tasks and knows which have not ended, in whichever thread they run."""

    def __init__(self) -> None:
        self._turns: dict[asyncio.Task[Turn], tuple[Cancel, threading.Event]] = {}

    def start(
        self,
        ready: ReadyTurn,
        cancel: Cancel,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
    ) -> asyncio.Task[Turn]:
        turn = ready.run(on_event=on_event, on_notice=on_notice, answer=answer, cancel=cancel)
        # Not in a task group: a generator can be closed from a different task than the one it ran in.
        task = asyncio.create_task(turn, name=f"segue {ready.key}")
        self._turns[task] = (cancel, threading.Event())
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel the turns that still run, and wait for them."""
        running = list(self._turns.values())
        for cancel, _ in running:
            cancel()
        if running:
            await run_sync(_wait_for_all, [ended for _, ended in running])

    def _ended(self, task: asyncio.Task[Turn]) -> None:
        _, ended = self._turns.pop(task)
        ended.set()


async def wait(task: asyncio.Task[Turn], cancel: Cancel) -> Turn:
    """Wait for the turn to end. If the caller is cancelled meanwhile, the turn is cancelled first."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await cancel_and_wait(task, cancel)
        raise


async def cancel_and_wait(task: asyncio.Task[Turn], cancel: Cancel) -> None:
    """Cancel a turn that no caller waits for any more, and wait until it has ended."""
    if not task.done():
        cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # retrieve it, or asyncio logs that it was never retrieved


def _wait_for_all(turns: list[threading.Event]) -> None:
    until = time.monotonic() + CLOSE_S
    for ended in turns:
        ended.wait(max(0.0, until - time.monotonic()))
