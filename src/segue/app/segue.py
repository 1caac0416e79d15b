"""The library: conversations and turns from Python.

    async with Segue() as segue:
        turn = await segue.run("fix-auth", "add a test", agent="claude", cwd=".")
        print(turn.text, turn.mode, turn.cost_usd)

The methods are named like the commands. If the agent fails, the turn has a ``failure``. Only misuse and
problems with Segue's own store raise (``SegueError`` and its subclasses).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Unpack

import anyio
from anyio.to_thread import run_sync

from segue.app import conversation_changes, conversations
from segue.app.ready_turn import (
    Answerer,
    Cancel,
    Listener,
    NoticeListener,
    Options,
    ReadyTurn,
    plan,
    ready_retry,
    ready_turn,
)
from segue.app.running_turns import RunningTurns, cancel_and_wait, wait
from segue.app.shapes import AgentShown, ConversationShown, LastAnswer, LogMessage, SetupFinding, Undone
from segue.app.workspace import Workspace, open_workspace
from segue.config.home import settled_environment
from segue.core.errors import Misuse
from segue.core.events import Event
from segue.core.turn import Turn

if TYPE_CHECKING:
    from segue.app.run_service import RunService
    from segue.app.segue_accounts import Accounts
    from segue.app.segue_conversations import Conversations
    from segue.app.segue_flows import Flows
    from segue.app.segue_runs import Runs
    from segue.app.segue_sessions import NativeSessions
    from segue.app.settings import SettingsShown
    from segue.app.usage import UnpaidTurn, UsageStatistics
    from segue.core.usage import Grouping
    from segue.turns.why import Why


class Segue:
    """Open it once, and use it from as many tasks as you like.

    Turns that still run when it is closed, or whose caller is cancelled, are cancelled cleanly.

    ``home``: where Segue keeps its data (default: ``SEGUE_HOME``, else the user's directories).
    ``env``: the environment for agents and settings (default: this process's).
    ``cwd``: the base of relative paths, and the directory of a turn that names none (default: this process's
    current directory).
    ``daemon``: the daemon runs the turns, as it does for the command line; without one, they raise
    ``DaemonUnavailable``. Everything else is done in this process, on the same store.
    """

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        daemon: bool = False,
    ) -> None:
        self._cwd = Path.cwd() if cwd is None else Path.cwd() / Path(cwd).expanduser()
        self._env = settled_environment(os.environ if env is None else env, self._cwd, home)
        self._workspace: Workspace | None = None
        self._running = RunningTurns(daemon)
        self._service: RunService | None = None

    async def __aenter__(self) -> Segue:
        opened = partial(open_workspace, self._env, self._cwd, lasting=True, notice=_log_notice)
        self._workspace = await run_sync(opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workspace, service, self._workspace = self.workspace, self._service, None
        with anyio.CancelScope(shield=True):
            if service is not None:
                await service.close()
            await self._running.close()
            await run_sync(workspace.close)

    @property
    def workspace(self) -> Workspace:
        """The environment, the directory and the store: for extensions and tests."""
        if self._workspace is None:
            raise Misuse("open it first: async with Segue() as segue")
        return self._workspace

    @property
    def sessions(self) -> NativeSessions:
        """The agents' own sessions."""
        from segue.app.segue_sessions import NativeSessions

        return NativeSessions(self)

    @property
    def conversations(self) -> Conversations:
        """Conversations page by page, their marks, and a search over all of them."""
        from segue.app.segue_conversations import Conversations

        return Conversations(self)

    @property
    def runs(self) -> Runs:
        """Runs that are queued and followed instead of awaited."""
        from segue.app.segue_runs import Runs

        return Runs(self)

    @property
    def flows(self) -> Flows:
        """Flows: functions whose steps are recorded, so that they go on after a kill."""
        from segue.app.segue_flows import Flows

        return Flows(self)

    @property
    def accounts(self) -> Accounts:
        """The accounts in the configuration."""
        from segue.app.segue_accounts import Accounts

        return Accounts(self)

    @property
    def service(self) -> RunService:
        """What runs queued turns: for the daemon."""
        from segue.app.run_service import RunService

        if self._service is None:
            self._service = RunService(self.workspace)
        return self._service

    async def run(
        self,
        key: str,
        text: str,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Run one turn of the conversation ``key`` to its end."""
        ready = await run_sync(partial(self._ready, key, text, options, answers=answer is not None))
        return await self.finish(ready, on_event=on_event, on_notice=on_notice, answer=answer, cancel=cancel)

    async def stream(
        self,
        key: str,
        text: str,
        *,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> AsyncGenerator[Event | Turn]:
        """Run one turn and yield its events as they come; the last thing yielded is the turn.

        Closing the generator early cancels the turn.
        """
        ready = await run_sync(partial(self._ready, key, text, options, answers=answer is not None))
        cancel, events = cancel or Cancel(), asyncio.Queue[Event | None]()
        turn = self._running.start(
            ready, cancel, on_event=events.put_nowait, on_notice=on_notice, answer=answer
        )
        turn.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield await turn
        finally:
            await cancel_and_wait(turn, cancel)

    async def retry(
        self,
        key: str,
        message: str | None = None,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Run a user message again (default: the last one); its answer is dropped.

        ``message`` is its id, ``#n``, or the id of one of its runs. If more than its own answer follows,
        ``cut=True`` is needed, and drops that, too.
        """
        answers = answer is not None
        ready = await run_sync(partial(ready_retry, self.workspace, key, message, options, answers=answers))
        return await self.finish(ready, on_event=on_event, on_notice=on_notice, answer=answer, cancel=cancel)

    async def why(
        self, key: str, text: str = "", *, retry_of: str | None = None, **options: Unpack[Options]
    ) -> Why:
        """What ``run`` would do, why, and what each mode would cost. Nothing is run.

        ``retry_of``: what ``retry`` of this message would do, instead of a new one."""
        return await run_sync(partial(plan, self.workspace, key, text, options, retry_of=retry_of))

    async def log(self, key: str) -> list[LogMessage]:
        """Every message, in order, with the turn that answered it.

        If Segue was killed during a turn, the log shows what the next turn will record for it, and
        ``recovery`` is set.
        """
        return list((await run_sync(conversations.log, self.workspace, key)).messages)

    async def ls(self, *, limit: int | None = None, before: str | None = None) -> list[ConversationShown]:
        """Conversations, most recently used first: all, or at most ``limit``. ``before``: those after one
        that was listed, named by ``f"{it.last_used}:{it.key}"``."""
        return await run_sync(partial(conversations.ls, self.workspace, limit=limit, before=before))

    async def last(self, key: str, *, wait: bool = False) -> LastAnswer:
        """The last answer. ``wait``: first wait until no turn runs or is queued."""
        return await run_sync(partial(conversations.last, self.workspace, key, wait=wait))

    async def edit(self, key: str, message: str, text: str, *, cut: bool = False) -> int:
        """Change one message in place; with ``cut``, drop what follows it. Returns how many were dropped."""
        return await conversation_changes.edit(self.workspace, key, message, text, cut=cut)

    async def truncate(self, key: str, message: str) -> int:
        """Drop a message and everything after it. Returns how many were dropped."""
        return await conversation_changes.truncate(self.workspace, key, message)

    async def undo(self, key: str) -> Undone:
        """Undo the last edit, truncation or retry, if nothing was said since."""
        return await conversation_changes.undo(self.workspace, key)

    async def fork(self, key: str, new_key: str | None = None, *, upto: str | None = None) -> str:
        """Create a conversation that begins with this one's messages: all, or up to ``upto``. Returns its
        key."""
        return await run_sync(conversation_changes.fork, self.workspace, key, new_key, upto)

    async def export(self, key: str, form: Literal["json", "markdown"] = "json") -> str:
        """The conversation as JSON, which ``import_`` accepts, or as Markdown to read."""
        return await run_sync(conversations.export, self.workspace, key, form)

    async def import_(self, export: str | bytes, key: str | None = None) -> str:
        """Create a conversation from an export, under its own key or another one. Returns the key."""
        return await run_sync(conversations.import_, self.workspace, export, key)

    async def rm(self, *keys: str) -> None:
        """Forget conversations. The agents' own sessions stay. If a key is unknown, none is forgotten."""
        await conversation_changes.rm(self.workspace, *keys)

    async def agents(self) -> list[AgentShown]:
        """The agents: where each was found, its version, what it can do, its accounts, and the models that
        were used lately."""
        from segue.app.agents import survey, with_models

        return await run_sync(lambda: with_models(survey(self._env, self._cwd), self.workspace))

    async def doctor(self) -> list[SetupFinding]:
        """What is right and wrong with the set-up."""
        from segue.app.doctor import examine

        return await run_sync(lambda: list(examine(self._env, self._cwd)))

    async def usage(
        self, *, since: str | None = None, by: Grouping = "day", split: Grouping | None = None
    ) -> UsageStatistics:
        """What all turns used, cost and saved. ``since``: ``7d``, ``12h``, or a date. ``split``: a second
        grouping, for the ``parts`` of each sum."""
        from segue.app.usage import usage

        return await run_sync(partial(usage, self.workspace, since=since, by=by, split=split))

    async def unpaid(self, *, since: str | None = None, limit: int = 100) -> list[UnpaidTurn]:
        """The turns for which continuing a session did not pay, newest first."""
        from segue.app.usage import unpaid

        return await run_sync(partial(unpaid, self.workspace, since=since, limit=limit))

    async def settings(self) -> SettingsShown:
        """The configuration as it is in effect, without anything secret."""
        from segue.app.settings import settings

        return await run_sync(settings, self.workspace)

    async def finish(
        self,
        ready: ReadyTurn,
        *,
        on_event: Listener | None,
        on_notice: NoticeListener | None,
        answer: Answerer | None,
        cancel: Cancel | None,
    ) -> Turn:
        """Run a prepared turn to its end."""
        cancel = cancel or Cancel()
        turn = self._running.start(ready, cancel, on_event=on_event, on_notice=on_notice, answer=answer)
        return await wait(turn, cancel)

    def _ready(
        self, key: str, text: str, options: Options, *, answers: bool = False, may_be_empty: bool = False
    ) -> ReadyTurn:
        return ready_turn(self.workspace, key, text, options, answers=answers, may_be_empty=may_be_empty)


def _log_notice(text: str) -> None:
    import logging

    logging.getLogger("segue").warning("segue: %s", text)
