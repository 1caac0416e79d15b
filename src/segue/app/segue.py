"""Opens the store that the configuration names.

The library: conversations from Python.

    async with Segue() as segue:
        turn = await segue.run("fix-auth", "add a test", agent="claude", cwd=".")
        print(turn.text, turn.mode, turn.cost_usd)

A failure of the agent is a turn with a ``failure``; only misuse raises (``SegueError`` and its kin).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Unpack

import anyio
from anyio.to_thread import run_sync

from segue.app.running import Notice, RunningTurns, cancel_and_wait, wait
from segue.config.home import at_home, home_of, this_host
from segue.config.load import load
from segue.core.errors import Misuse
from segue.core.events import Event
from segue.core.ids import conversation_key
from segue.core.turn import Turn
from segue.runner.attempt import Answerer, Cancel, Listener
from segue.store.records import ChangeRow, Conversation, LogRow, Summary
from segue.store.store import Store, open_store
from segue.turns import changes, exchange, projection
from segue.turns.prepare import Prepared, prepare
from segue.turns.request import Options, request_from_options, utf8
from segue.turns.why import Why, why

if TYPE_CHECKING:
    from segue.sessions.catalog import SessionCatalog
    from segue.sessions.reading import Page
    from segue.sessions.summary import SessionShown


def store_at_home(env: Mapping[str, str]) -> Store:
    """The store of this environment; it is made if it is not there yet."""
    home = home_of(env)
    home.make(home.root)
    return open_store(load(env, Path.cwd()).store.url, home.store)


CHANGE_WAIT_S = 2.0
"""How long a change waits for a turn that is running."""


class Segue:
    """The door to conversations. Open it once, use it from as many tasks as you like.

    Turns that still run when it is closed, or whose caller is cancelled, are cancelled and seen off.

    ``home``: where Segue keeps its things (default: ``SEGUE_HOME``, else the user's directories).
    ``env``: the environment that agents get and that is asked for settings (default: this process's).
    """

    def __init__(self, *, home: str | Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._env = at_home(os.environ if env is None else env)
        if home is not None:
            self._env["SEGUE_HOME"] = str(Path(home).expanduser().absolute())
        self._store: Store | None = None
        self._underway = RunningTurns()

    async def __aenter__(self) -> Segue:
        self._store = await run_sync(store_at_home, self._env)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        store, self._store = self.store, None
        with anyio.CancelScope(shield=True):
            await self._underway.close()
            await run_sync(store.close)

    @property
    def store(self) -> Store:
        if self._store is None:
            raise Misuse("open it first: async with Segue() as segue")
        return self._store

    async def run(
        self,
        key: str,
        text: str,
        *,
        on_event: Listener | None = None,
        on_notice: Notice | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Run one turn of the conversation ``key`` to its end."""
        prepared = await self._prepared(key, text, options, answers=answer is not None)
        cancel = cancel or Cancel()
        turn = self._underway.start(
            prepared, self.store, cancel, on_event=on_event, on_notice=on_notice, answer=answer
        )
        return await wait(turn, cancel)

    async def stream(self, key: str, text: str, **options: Unpack[Options]) -> AsyncGenerator[Event | Turn]:
        """Run one turn and yield its events as they come; the last thing yielded is the turn.

        A caller that stops listening ends the turn.
        """
        prepared = await self._prepared(key, text, options)
        cancel, events = Cancel(), asyncio.Queue[Event | None]()
        turn = self._underway.start(prepared, self.store, cancel, on_event=events.put_nowait)
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
        on_notice: Notice | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Run a user message again from that point (default: the last one); its answer is dropped.

        Messages are named by their id, as ``#n``, or by the id of a run. If more than its own answer follows,
        ``cut=True`` is needed: that goes, too.
        """
        conversation = await self.conversation(key)
        found = await run_sync(changes.find_message, self.store, conversation, message, "user")
        if not options.get("fork"):  # which messages there are in a fork is known once it is made
            cut = options.get("cut", False)
            await run_sync(changes.may_rerun, self.store, conversation.id, found.id, cut)
        text = (await run_sync(self.store.texts, [found.id]))[found.id]
        wanted = await run_sync(changes.as_said, self.store, found, options)
        prepared = await self._prepared(key, text, wanted, answers=answer is not None)
        cancel = cancel or Cancel()
        turn = self._underway.start(
            prepared,
            self.store,
            cancel,
            on_event=on_event,
            on_notice=on_notice,
            answer=answer,
            again=found.id,
        )
        return await wait(turn, cancel)

    async def why(self, key: str, text: str = "", **options: Unpack[Options]) -> Why:
        """The decision that ``run`` would take, and what each way would cost; nothing is run."""
        prepared = await self._prepared(key, text or " ", options, asking=True)
        return await run_sync(why, prepared, self.store, len(text.encode()))

    async def edit(self, key: str, message: str, text: str, *, cut: bool = False) -> int:
        """Change one message in place; with ``cut``, drop what follows it. How many were dropped."""
        conversation = await self.conversation(key)
        async with self._changing(conversation):
            found = await run_sync(changes.find_message, self.store, conversation, message)
            new = utf8(text, "new text")
            gone = await run_sync(lambda: changes.edit(self.store, conversation, found.id, new, cut=cut))
            return len(gone)

    async def truncate(self, key: str, message: str) -> int:
        """Drop a message and all after it; how many were dropped."""
        conversation = await self.conversation(key)
        async with self._changing(conversation):
            found = await run_sync(changes.find_message, self.store, conversation, message)
            return len(await run_sync(changes.truncate, self.store, conversation, found.id))

    async def undo(self, key: str) -> ChangeRow:
        """Take back the last edit, truncation or retry, if nothing was said since; which it was."""
        conversation = await self.conversation(key)
        async with self._changing(conversation):
            return await run_sync(changes.undo, self.store, conversation)

    async def fork(self, key: str, new_key: str | None = None, *, upto: str | None = None) -> str:
        """A new conversation that begins with this one's messages (all, or up to one); its key."""
        conversation = await self.conversation(key)
        last = (await run_sync(changes.find_message, self.store, conversation, upto)).id if upto else None
        wanted = conversation_key(new_key) if new_key is not None else None
        return (await run_sync(changes.fork, self.store, conversation, wanted, last)).key

    async def history(self, key: str) -> list[LogRow]:
        """Every message as it stands, with the turn that made it.

        What a killed Segue left behind reads as the next turn will settle it; ``turn.recovery`` says so.
        """
        conversation = await self.conversation(key)
        return await run_sync(lambda: self._foreseen(conversation).log(conversation.id))

    async def conversations(self) -> list[Summary]:
        """All conversations, the last used first."""
        return await run_sync(projection.list_projected, self.store, self._env, Path.cwd())

    async def export(self, key: str, form: Literal["json", "markdown"] = "json") -> str:
        """The conversation as JSON, which ``take_in`` takes, or as Markdown to read."""
        conversation = await self.conversation(key)
        export = await run_sync(lambda: exchange.export_of(self._foreseen(conversation), conversation))
        return exchange.markdown(export) if form == "markdown" else exchange.json(export)

    async def take_in(self, export: str | bytes, key: str | None = None) -> str:
        """Make a conversation of an export, under its own key or another one; its key."""
        data = export.encode() if isinstance(export, str) else export
        return (await run_sync(exchange.take_in, self.store, exchange.read(data), key)).key

    async def sessions(self, *, everywhere: bool = False, agents: Sequence[str] = ()) -> list[SessionShown]:
        """The agents' own sessions, of this directory or of all; the last used first."""
        return await run_sync(self._sessions, everywhere, agents)

    async def page(
        self, session: str, *, before_id: str | None = None, anchor_to_latest: bool = True, size: int = 100
    ) -> Page:
        """Events of one of these sessions: the newest, or those before an event (a page's ``first_id``)."""
        from segue.sessions.reading import newest_page

        def read() -> Page:
            found = self._shelf().find(session)
            return newest_page(
                found.place.reader,
                found.stored,
                before_id=before_id,
                anchor_to_latest=anchor_to_latest,
                size=size,
            )

        return await run_sync(read)

    async def remove(self, key: str) -> None:
        """Forget a conversation. The agents' own sessions stay where they are."""
        conversation = await self.conversation(key)
        async with self._changing(conversation):
            await run_sync(self.store.remove, conversation.id)

    async def conversation(self, key: str) -> Conversation:
        """The conversation of that key, or ``Misuse``."""
        return await run_sync(changes.known_conversation, self.store, conversation_key(key))

    async def _prepared(
        self, key: str, text: str, options: Options, *, asking: bool = False, answers: bool = False
    ) -> Prepared:
        ask = request_from_options(key, text, options, may_be_empty=asking, answers=answers)
        return await run_sync(prepare, ask, self._env, self.store, Path.cwd())

    def _foreseen(self, conversation: Conversation) -> Store:
        return projection.projected(self.store, conversation, self._env, Path.cwd())

    def _shelf(self) -> SessionCatalog:
        from segue.sessions.catalog import SessionCatalog

        return SessionCatalog(self._env, self.store, Path.cwd())

    def _sessions(self, everywhere: bool, agents: Sequence[str]) -> list[SessionShown]:
        from segue.sessions.summary import shown_session

        shelf = self._shelf()
        return [shown_session(each, shelf) for each in shelf.exact(shelf.sessions(everywhere, agents))]

    def _changing(self, conversation: Conversation) -> AbstractAsyncContextManager[None]:
        home = home_of(self._env)
        host = this_host(load(self._env, Path.cwd()).store.host, home)
        return changes.changing(self.store, conversation, home, host, CHANGE_WAIT_S)
