"""A turn that the daemon runs for a caller of the library: ``Segue(daemon=True)``.

It is the call that the command line makes. If the daemon goes away, this process looks for the run and
follows it, or runs it itself if the daemon had not begun it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from anyio.to_thread import run_sync

from segue.app.foreground import ForegroundCall
from segue.app.frames import ELSEWHERE, Ended, Happened, Notice, Ready, Refused
from segue.app.ready_turn import (
    NOBODY,
    REFUSED,
    Answer,
    Answerer,
    Cancel,
    Listener,
    NoticeListener,
    ReadyTurn,
)
from segue.app.run_shapes import ToolAnswer
from segue.client import TURNS, Daemon, DaemonLost, RemoteCancel, find_daemon, inherited
from segue.core import errors
from segue.core import events as ev
from segue.core.laws import Door
from segue.core.request import Inherited
from segue.core.turn import Turn
from segue.core.verdicts import notices_of, with_notices
from segue.runner.attempt import Guard, Guarded

Frame = Ready | Notice | Happened | Ended | Refused
NONE_RUNS = "no daemon runs here; start one with: segue serve --background"
UNKNOWN, ASK_AGAIN_S, MOST_ASKS = 404, 0.1, 100
"""A question is told when it is read, and stored a moment later."""
RAISED: dict[str, type[errors.SegueError]] = {
    each.code: each
    for each in (
        *(errors.ConfigError, errors.NotInstalled, errors.Misuse, errors.Conflict, errors.Gone),
        *(errors.InUse, errors.StoreAway, errors.Broken),
    )
}


class DaemonTurn:
    """``ready``: the same turn, checked for this process."""

    def __init__(self, ready: ReadyTurn) -> None:
        self._ready, self.key = ready, ready.key
        self._shown = 0
        """How many events the caller has heard."""

    async def run(
        self,
        *,
        on_event: Listener | None = None,
        on_notice: NoticeListener | None = None,
        answer: Answerer | None = None,
        cancel: Cancel | None = None,
    ) -> Turn:
        """Let the daemon run it, to its end. Raises ``DaemonUnavailable`` if there is none that can."""
        cancel = cancel or Cancel()
        daemon = await run_sync(_found, self._ready)
        calling = _Calling(daemon, self._call(answer is not None), cancel)
        audience, told = Guarded("on_event", on_event), Guarded("on_notice", on_notice)
        asking = _Asking(daemon, self._ready.prepared.run, answer)
        try:
            async for line in calling.lines():
                if line.startswith(b'{"schema"'):
                    return _with_notices(msgspec.json.decode(line, type=Turn), audience, told, asking)
                match msgspec.json.decode(line, type=Frame):
                    case Happened(event=event):
                        self._shown += 1
                        audience(event)
                        asking.hear(event)
                    case Notice(text=text):
                        told(text)
                    case Refused() as refused:
                        raise _raised(refused)
        except DaemonLost:
            pass
        finally:
            asking.end()
        here = await run_sync(self._ready.begun_elsewhere, self._ready.prepared.run)
        return await here.run(
            on_event=self._later(on_event), on_notice=on_notice, answer=answer, cancel=cancel
        )

    def _call(self, answers: bool) -> dict[str, Any]:
        ready = self._ready
        call = ForegroundCall(
            run=ready.prepared.run,
            key=ready.key,
            text=ready.prepared.ask.prompt if ready.retry_message is None else None,
            message=ready.retry_message,
            options={name: value for name, value in ready.options.items() if value is not None},
            cwd=str(ready.workspace.cwd),
            env=dict(ready.workspace.env),
            inherited=Inherited(**inherited()),
            answers=answers,
            events=True,
            repeatable=False,
            continues=ready.prepared.ask.door is Door.CONTINUE,
        )
        made: dict[str, Any] = msgspec.to_builtins(call, enc_hook=os.fspath)
        return made

    def _later(self, on_event: Listener | None) -> Listener | None:
        """Hears what comes after the events that the daemon has told."""
        if on_event is None:
            return None
        before = self._shown

        def hear(event: ev.Event) -> None:
            nonlocal before
            before -= 1
            if before < 0:
                on_event(event)

        return hear


class _Calling:
    """The call, in a thread of its own: it may take hours."""

    def __init__(self, daemon: Daemon, call: dict[str, Any], cancel: Cancel) -> None:
        self._daemon, self._call, self._cancel = daemon, call, cancel
        self._cancelling = RemoteCancel(daemon, call["run"])

    async def lines(self) -> Any:
        """The lines of the answer. Raises ``DaemonLost``."""
        loop, came = asyncio.get_running_loop(), asyncio.Queue[bytes | DaemonLost]()

        def put(what: bytes | DaemonLost) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(came.put_nowait, what)

        threading.Thread(target=self._read, args=(put,), daemon=True, name="segue daemon turn").start()
        while not isinstance(line := await came.get(), DaemonLost):
            yield line
        raise line

    def _read(self, put: Callable[[bytes | DaemonLost], None]) -> None:
        try:
            for line in self._daemon.call(TURNS, self._call, self._tick):
                put(line)
                self._tick()
        except DaemonLost as lost:
            put(lost)
        else:
            put(DaemonLost(True))

    def _tick(self) -> None:
        self._cancelling.asked = self._cancel.asked
        self._cancelling.pass_on()


class _Asking(Guard):
    """Answers the agent's questions by the caller's function, each in a task."""

    def __init__(self, daemon: Daemon, run: str, answerer: Answerer | None) -> None:
        super().__init__("answer")
        self._daemon, self._path, self._answerer = daemon, f"/api/v1/runs/{run}/tool-result", answerer
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, event: ev.Event) -> None:
        if self._answerer is not None and isinstance(event, ev.Question | ev.Permission):
            task = asyncio.create_task(self._reply(event, self._answerer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _reply(self, event: ev.Question | ev.Permission, answerer: Answerer) -> None:
        given = NOBODY if isinstance(event, ev.Question) else REFUSED
        try:
            given = await answerer(event) if self.failed is None else given
        except Exception as error:
            self.note(error)
        body = msgspec.to_builtins(_tool_answer(event, given))
        for _ in range(MOST_ASKS):
            if await run_sync(self._daemon.post, self._path, body) != UNKNOWN:
                return
            await asyncio.sleep(ASK_AGAIN_S)


def _with_notices(turn: Turn, *guards: Guard) -> Turn:
    """The turn, with what is to be said about functions of the caller that have raised."""
    notices = [notice for guard in guards if (notice := guard.told()) is not None]
    return with_notices(turn, [*notices_of(turn), *notices]) if notices else turn


def _tool_answer(event: ev.Question | ev.Permission, given: Answer) -> ToolAnswer:
    if isinstance(event, ev.Question) and given.allow:
        return ToolAnswer(tool_use_id=event.id, answers=given.answers)
    if given.always:
        return ToolAnswer(tool_use_id=event.id, always=True)
    return ToolAnswer(tool_use_id=event.id, allow=given.allow, content=given.message)


def _found(ready: ReadyTurn) -> Daemon:
    found = find_daemon(ready.workspace.env)
    if isinstance(found, Daemon):
        return found
    raise errors.DaemonUnavailable(found.partition(";")[0] if found is not None else NONE_RUNS)


def _raised(refused: Refused) -> errors.SegueError:
    """What this process would have raised itself."""
    if refused.code == ELSEWHERE:
        return errors.DaemonUnavailable(refused.message)
    return RAISED.get(refused.code, errors.SegueError)(refused.message)
