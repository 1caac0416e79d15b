"""The synchronous API, for scripts.

    with SyncSegue() as segue:
        turn = segue.run("fix-auth", "add a test", agent="claude", cwd=".")

Its methods are made from those of ``Segue``. They run in an event loop in a thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from anyio.from_thread import BlockingPortal, start_blocking_portal

from segue.app.flow_shapes import FlowShown
from segue.app.ready_turn import Answerer, Cancel, NoticeListener, Options
from segue.app.segue import Segue
from segue.app.segue_accounts import Accounts
from segue.app.segue_conversations import Conversations
from segue.app.segue_flows import Flows
from segue.app.segue_runs import Runs
from segue.app.segue_sessions import NativeSessions
from segue.app.subscriptions import FeedItem
from segue.core.errors import Misuse
from segue.core.events import Event
from segue.core.turn import Turn

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class Blocking(Generic[A]):
    """A synchronous wrapper of an asynchronous object."""

    def __init__(self, behind: A, portal: Callable[[], BlockingPortal]) -> None:
        self._behind, self._portal = behind, portal


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """A method that calls ``method`` in the event loop and waits for it."""

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._portal().call(partial(method, self._behind, *args, **kwargs))
        return result

    return call


def blocking_turn(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, Turn]],
) -> Callable[Concatenate[Blocking[A], P], Turn]:
    """The same for a turn: if Ctrl-C interrupts the wait, the turn is cancelled cleanly.

    ``on_event``, ``on_notice`` and ``answer`` are called in the thread of the event loop.
    """

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Turn:
        cancel = kwargs.get("cancel") or Cancel()
        assert isinstance(cancel, Cancel)
        kwargs["cancel"] = cancel
        turn: Future[Turn] = self._portal().start_task_soon(partial(method, self._behind, *args, **kwargs))
        try:
            return turn.result()
        finally:
            _cancel_and_wait(turn, cancel)

    return call


class SyncNativeSessions(Blocking[NativeSessions]):
    """See ``NativeSessions``; the methods are the same."""

    ls = blocking(NativeSessions.ls)
    info = blocking(NativeSessions.info)
    show = blocking(NativeSessions.show)
    search = blocking(NativeSessions.search)
    check = blocking(NativeSessions.check)
    repair = blocking(NativeSessions.repair)
    restore = blocking(NativeSessions.restore)
    copies = blocking(NativeSessions.copies)
    prune = blocking(NativeSessions.prune)
    continue_ = blocking_turn(NativeSessions.continue_)


class SyncConversations(Blocking[Conversations]):
    """See ``Conversations``; the methods are the same."""

    create = blocking(Conversations.create)
    show = blocking(Conversations.show)
    rename = blocking(Conversations.rename)
    star = blocking(Conversations.star)
    mark_read = blocking(Conversations.mark_read)
    disallow = blocking(Conversations.disallow)
    messages = blocking(Conversations.messages)
    search = blocking(Conversations.search)
    attachment = blocking(Conversations.attachment)
    siblings = blocking(Conversations.siblings)
    lineage = blocking(Conversations.lineage)
    chain = blocking(Conversations.chain)
    sessions = blocking(Conversations.sessions)


class SyncRuns(Blocking[Runs]):
    """See ``Runs``; the methods are the same."""

    submit = blocking(Runs.submit)
    plan = blocking(Runs.plan)
    continue_session = blocking(Runs.continue_session)
    show = blocking(Runs.show)
    event = blocking(Runs.event)
    ls = blocking(Runs.ls)
    queue = blocking(Runs.queue)
    edit = blocking(Runs.edit)
    move = blocking(Runs.move)
    remove = blocking(Runs.remove)
    cancel = blocking(Runs.cancel)
    now = blocking(Runs.now)
    answer = blocking(Runs.answer)

    def watch(self, run: str | None = None, after: str | None = None) -> Iterator[FeedItem]:
        """What changes from now on, or since the event with the id ``after``; of one run until it is settled,
        or everything."""
        items = self._behind.watch(run, after)
        try:
            while (item := self._portal().call(_next, items)) is not None:
                yield item
        finally:
            self._portal().call(items.aclose)


async def _next(items: AsyncGenerator[T]) -> T | None:
    return await anext(items, None)


class SyncFlows(Blocking[Flows]):
    """See ``Flows``; the methods are the same."""

    run = blocking(Flows.run)
    start = blocking(Flows.start)
    escalate = blocking(Flows.escalate)
    start_escalation = blocking(Flows.start_escalation)
    review = blocking(Flows.review)
    start_review = blocking(Flows.start_review)
    compare = blocking(Flows.compare)
    start_comparison = blocking(Flows.start_comparison)
    comparison = blocking(Flows.comparison)
    join = blocking(Flows.join)
    show = blocking(Flows.show)
    report = blocking(Flows.report)
    ls = blocking(Flows.ls)
    resume = blocking(Flows.resume)
    retry_step = blocking(Flows.retry_step)
    pause = blocking(Flows.pause)
    cancel = blocking(Flows.cancel)
    artefact = blocking(Flows.artefact)
    answer = blocking(Flows.answer)

    def watch(self, flow: str) -> Iterator[FlowShown]:
        """The flow as it is now, and again whenever something about it has changed, until it is over."""
        items = self._behind.watch(flow)
        try:
            while (item := self._portal().call(_next, items)) is not None:
                yield item
        finally:
            self._portal().call(items.aclose)


class SyncAccounts(Blocking[Accounts]):
    """See ``Accounts``; the methods are the same."""

    ls = blocking(Accounts.ls)
    show = blocking(Accounts.show)
    refresh = blocking(Accounts.refresh)
    add = blocking(Accounts.add)
    rm = blocking(Accounts.rm)
    login = blocking(Accounts.login)
    default = blocking(Accounts.default)
    bind = blocking(Accounts.bind)
    switch = blocking(Accounts.switch)
    audit = blocking(Accounts.audit)


class SyncSegue(Blocking[Segue]):
    """See ``Segue``; the methods are the same."""

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        daemon: bool = False,
    ) -> None:
        super().__init__(Segue(home=home, env=env, cwd=cwd, daemon=daemon), self._open_portal)
        self._stack = ExitStack()
        self._loop: BlockingPortal | None = None

    def __enter__(self) -> SyncSegue:
        with ExitStack() as stack:
            loop = stack.enter_context(start_blocking_portal())
            stack.enter_context(loop.wrap_async_context_manager(self._behind))
            self._loop, self._stack = loop, stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop = None
        self._stack.close()

    def _open_portal(self) -> BlockingPortal:
        if self._loop is None:
            raise Misuse("open it first: with SyncSegue() as segue")
        return self._loop

    @property
    def sessions(self) -> SyncNativeSessions:
        """The agents' own sessions."""
        return SyncNativeSessions(self._behind.sessions, self._portal)

    @property
    def conversations(self) -> SyncConversations:
        """Conversations page by page, their marks, and a search over all of them."""
        return SyncConversations(self._behind.conversations, self._portal)

    @property
    def runs(self) -> SyncRuns:
        """Runs that are queued and followed instead of awaited."""
        return SyncRuns(self._behind.runs, self._portal)

    @property
    def flows(self) -> SyncFlows:
        """Flows: functions whose steps are recorded, so that they go on after a kill."""
        return SyncFlows(self._behind.flows, self._portal)

    @property
    def accounts(self) -> SyncAccounts:
        """The accounts in the configuration."""
        return SyncAccounts(self._behind.accounts, self._portal)

    def stream(
        self,
        key: str,
        text: str,
        *,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Iterator[Event | Turn]:
        """Run one turn and yield its events as they come; the last thing yielded is the turn."""
        events, cancel = SimpleQueue[Event | None](), cancel or Cancel()
        run = partial(
            self._behind.run, key, text, on_notice=on_notice, answer=answer, cancel=cancel, **options
        )
        turn: Future[Turn] = self._portal().start_task_soon(partial(run, on_event=events.put))
        turn.add_done_callback(lambda _: events.put(None))
        try:
            while (event := events.get()) is not None:
                yield event
            yield turn.result()
        finally:
            _cancel_and_wait(turn, cancel)

    run = blocking_turn(Segue.run)
    retry = blocking_turn(Segue.retry)
    why = blocking(Segue.why)
    log = blocking(Segue.log)
    ls = blocking(Segue.ls)
    last = blocking(Segue.last)
    edit = blocking(Segue.edit)
    truncate = blocking(Segue.truncate)
    undo = blocking(Segue.undo)
    fork = blocking(Segue.fork)
    export = blocking(Segue.export)
    import_ = blocking(Segue.import_)
    rm = blocking(Segue.rm)
    agents = blocking(Segue.agents)
    doctor = blocking(Segue.doctor)
    usage = blocking(Segue.usage)
    unpaid = blocking(Segue.unpaid)
    settings = blocking(Segue.settings)


def _cancel_and_wait(turn: Future[Turn], cancel: Cancel) -> None:
    """Cancel the turn if it still runs: after Ctrl-C, or if its generator was closed."""
    if not turn.done():
        cancel()
        wait([turn])
