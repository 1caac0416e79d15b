"""The synchronous API, for scripts.

    with SyncSegue() as segue:
        turn = segue.run("fix-auth", "add a test", agent="claude", cwd=".")

An event loop of its own runs in a thread behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Literal, Unpack

from anyio.from_thread import BlockingPortal, start_blocking_portal

from segue.app.running import Notice
from segue.app.segue import Segue
from segue.core.errors import Misuse
from segue.core.events import Event
from segue.core.turn import Turn
from segue.runner.attempt import Cancel, Listener
from segue.sessions.reading import Page
from segue.sessions.summary import SessionShown
from segue.store.records import ChangeRow, LogRow, Summary
from segue.turns.request import Options
from segue.turns.why import Why


class SyncSegue:
    """See ``Segue``; the methods are the same."""

    def __init__(self, *, home: str | Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._segue = Segue(home=home, env=env)
        self._stack = ExitStack()
        self._loop: BlockingPortal | None = None

    def __enter__(self) -> SyncSegue:
        with ExitStack() as stack:
            loop = stack.enter_context(start_blocking_portal())
            stack.enter_context(loop.wrap_async_context_manager(self._segue))
            self._loop, self._stack = loop, stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop = None
        self._stack.close()

    @property
    def _portal(self) -> BlockingPortal:
        if self._loop is None:
            raise Misuse("open it first: with SyncSegue() as segue")
        return self._loop

    def run(
        self,
        key: str,
        text: str,
        *,
        on_event: Listener | None = None,
        on_notice: Notice | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        """Run one turn to its end. ``on_event`` and ``on_notice`` are called in another thread."""
        cancel, go = cancel or Cancel(), self._segue.run
        return self._ended(
            partial(go, key, text, on_event=on_event, on_notice=on_notice, cancel=cancel, **options), cancel
        )

    def stream(self, key: str, text: str, **options: Unpack[Options]) -> Iterator[Event | Turn]:
        """Run one turn and yield its events as they come; the last thing yielded is the turn."""
        events, cancel = SimpleQueue[Event | None](), Cancel()
        turn = self._portal.start_task_soon(
            partial(self._segue.run, key, text, on_event=events.put, cancel=cancel, **options)
        )
        turn.add_done_callback(lambda _: events.put(None))
        try:
            while (event := events.get()) is not None:
                yield event
            yield turn.result()
        finally:
            _see_off(turn, cancel)

    def retry(
        self,
        key: str,
        message: str | None = None,
        *,
        on_event: Listener | None = None,
        on_notice: Notice | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[Options],
    ) -> Turn:
        cancel, go = cancel or Cancel(), self._segue.retry
        return self._ended(
            partial(go, key, message, on_event=on_event, on_notice=on_notice, cancel=cancel, **options),
            cancel,
        )

    def why(self, key: str, text: str = "", **options: Unpack[Options]) -> Why:
        return self._portal.call(partial(self._segue.why, key, text, **options))

    def edit(self, key: str, message: str, text: str, *, cut: bool = False) -> int:
        return self._portal.call(partial(self._segue.edit, key, message, text, cut=cut))

    def truncate(self, key: str, message: str) -> int:
        return self._portal.call(self._segue.truncate, key, message)

    def undo(self, key: str) -> ChangeRow:
        return self._portal.call(self._segue.undo, key)

    def fork(self, key: str, new_key: str | None = None, *, upto: str | None = None) -> str:
        return self._portal.call(partial(self._segue.fork, key, new_key, upto=upto))

    def history(self, key: str) -> list[LogRow]:
        return self._portal.call(self._segue.history, key)

    def conversations(self) -> list[Summary]:
        return self._portal.call(self._segue.conversations)

    def sessions(self, *, everywhere: bool = False, agents: Sequence[str] = ()) -> list[SessionShown]:
        return self._portal.call(partial(self._segue.sessions, everywhere=everywhere, agents=agents))

    def page(
        self, session: str, *, before_id: str | None = None, anchor_to_latest: bool = True, size: int = 100
    ) -> Page:
        return self._portal.call(
            partial(
                self._segue.page, session, before_id=before_id, anchor_to_latest=anchor_to_latest, size=size
            )
        )

    def remove(self, key: str) -> None:
        self._portal.call(self._segue.remove, key)

    def export(self, key: str, form: Literal["json", "markdown"] = "json") -> str:
        return self._portal.call(self._segue.export, key, form)

    def take_in(self, export: str | bytes, key: str | None = None) -> str:
        return self._portal.call(self._segue.take_in, export, key)

    def _ended(self, work: Callable[[], Coroutine[Any, Any, Turn]], cancel: Cancel) -> Turn:
        turn: Future[Turn] = self._portal.start_task_soon(work)
        try:
            return turn.result()
        finally:
            _see_off(turn, cancel)


def _see_off(turn: Future[Turn], cancel: Cancel) -> None:
    """After Ctrl-C, or when nobody listens any more: the turn is ended in order."""
    if not turn.done():
        cancel()
        wait([turn])
