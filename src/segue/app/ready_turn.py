"""A turn that is checked and ready to start, and the types of what it is run with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import Answer
from segue.app.workspace import Workspace
from segue.core.errors import Misuse, SegueError
from segue.core.laws import Door
from segue.core.request import Briefing, FlowPlace
from segue.core.turn import Mode, Turn
from segue.runner.attempt import NOBODY, REFUSED, Answerer, Cancel, Listener
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
    "plan",
    "ready_retry",
    "ready_turn",
]

NoticeListener = Callable[[str], None]


class ReadyTurn:
    """A turn that can start: everything that can be checked before it starts has been checked."""

    def __init__(
        self,
        workspace: Workspace,
        prepared: Prepared,
        options: Options,
        retry_message: str | None = None,
        *,
        may_be_begun: bool = False,
    ) -> None:
        self.workspace, self.prepared, self.retry_message = workspace, prepared, retry_message
        self.options = options
        self._may_be_begun = may_be_begun

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

    def begun_elsewhere(self, run: str) -> ReadyTurn:
        """The same turn under the id of a run that another process may have begun. If it did, ``run`` follows
        that run, or settles it if the process is gone."""
        known = self.workspace.store.conversation(self.key)  # that process may have created it
        conversation = known or self.prepared.conversation
        prepared = msgspec.structs.replace(self.prepared, run=run, conversation=conversation)
        return ReadyTurn(self.workspace, prepared, self.options, self.retry_message, may_be_begun=True)

    def counting_for(self, key: str) -> ReadyTurn:
        """The same turn, for something done in another conversation: that one's budget counts, too."""
        ask = msgspec.structs.replace(self.prepared.ask, counts_for=key)
        prepared = msgspec.structs.replace(self.prepared, ask=ask)
        return ReadyTurn(self.workspace, prepared, self.options, self.retry_message)

    async def run(
        self,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        on_run: Callable[[str], None] | None = None,
    ) -> Turn:
        return await run(
            self.prepared,
            self.workspace.store,
            on_event=on_event,
            on_notice=on_notice,
            answer=answer,
            cancel=cancel,
            retry_message=self.retry_message,
            may_be_begun=self._may_be_begun,
            on_run=on_run,
            failover=partial(failover, self.workspace),
        )

    def why(self, new_bytes: int) -> Why:
        """What the turn would do, and why. ``new_bytes``: the size of the message."""
        from segue.turns.why import why

        return why(self.prepared, self.workspace.store, new_bytes, self.retry_message)

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


async def failover(
    workspace: Workspace, prepared: Prepared, failed: Turn, notice: NoticeListener
) -> Prepared | None:
    """The run of another account that takes the message of a turn that met a limit; None: none can."""
    from segue.app.failover import failover

    return await failover(workspace, prepared, failed, notice)


def ready_turn(
    workspace: Workspace,
    key: str,
    text: str,
    options: Options,
    *,
    answers: bool = False,
    may_be_empty: bool = False,
    repeatable: bool = False,
    door: Door = Door.RUN,
    flow: FlowPlace | None = None,
    briefing: Briefing | None = None,
) -> ReadyTurn:
    """Prepare a turn. ``answers``: the agent's questions can be answered. ``repeatable``: after a temporary
    failure, the same text retries this turn. ``door``: how the run comes to be. ``flow``, ``briefing``: for
    the turn of a flow."""
    request = request_from_options(key, text, options, may_be_empty=may_be_empty, answers=answers)
    if request.adopt is not None and door is Door.RUN:
        door = Door.ADOPT
    via = "run" if repeatable else ""
    request = msgspec.structs.replace(request, via=via, door=door, flow=flow, briefing=briefing)
    if not options.get("attachments"):
        return ReadyTurn(workspace, _prepared(workspace, request), options)
    from segue.turns.attachments import load

    files = load(options["attachments"], workspace.cwd, workspace.env)
    request = msgspec.structs.replace(request, attachments=tuple(each.shown for each in files))
    return ReadyTurn(workspace, msgspec.structs.replace(_prepared(workspace, request), files=files), options)


def ready_retry(
    workspace: Workspace, key: str, named: str | None, options: Options, *, answers: bool = False
) -> ReadyTurn:
    """Prepare a retry of a user message (None: the last one), for the agent that it was sent to before."""
    from segue.turns import changes

    store, conversation = workspace.store, workspace.conversation(key)
    message = changes.find_message(store, conversation, named, "user")
    if not options.get("fork"):  # which messages a fork has is known only after it is made
        changes.check_retry(store, conversation.id, message.id, options.get("cut", False))
    text = store.texts([message.id])[message.id]
    request = request_from_options(key, text, changes.as_said(store, message, options), answers=answers)
    if options.get("attachments"):
        raise Misuse("a retry sends the message as it is, with its own attachments; leave out attachments")
    attached = store.attachments([message.id]).get(message.id, ())
    request = msgspec.structs.replace(request, attachments=attached, door=Door.RETRY)
    return ReadyTurn(workspace, _prepared(workspace, request), options, message.id)


def plan(
    workspace: Workspace,
    key: str,
    text: str,
    options: Options,
    *,
    retry_of: str | None = None,
    answers: bool = False,
    mention: NoticeListener | None = None,
) -> Why:
    """What a turn would do, and why. ``retry_of``: a retry of that message. ``mention``: is called with what
    has no effect in the configuration."""
    if retry_of is not None and text:
        raise Misuse("a retry sends the message as it is; leave out the text")
    if retry_of is not None:
        ready = ready_retry(workspace, key, retry_of, options, answers=answers)
    else:
        ready = ready_turn(workspace, key, text or " ", options, answers=answers, may_be_empty=True)
    if mention is not None:
        for each in ready.mentions:
            mention(each)
    return ready.why(len(text.encode()))


def _prepared(workspace: Workspace, request: TurnRequest) -> Prepared:
    if request.system_prompt_file is not None:
        file = str(workspace.cwd / request.system_prompt_file)
        request = msgspec.structs.replace(request, system_prompt_file=file)
    prepared = prepare(request, workspace.env, workspace.store, workspace.cwd, workspace.config)
    return msgspec.structs.replace(prepared, transport=workspace.transport)
