"""One attempt: starts the CLI, follows its stream to the end, and returns the outcome.

Questions from the agent are answered in the meantime without blocking anything else. Listeners get the events
of this turn, but not those of earlier turns that a CLI replays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from segue.agents.base import Agent, Answer, Ended
from segue.core import events as ev
from segue.core.outcome import Outcome, nothing_known
from segue.core.redact import Redactor, StreamRedactor
from segue.core.request import Command, Request, RunPlace, Runtime
from segue.core.stream import Oversize, TurnState
from segue.core.usage import Totals, Usage
from segue.core.verdicts import Said, say
from segue.runner.launch import Running, launch
from segue.runner.supervisor import Limits
from segue.system import clock
from segue.system.files import write_whole
from segue.system.loop import anyio

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from anyio.abc import TaskGroup

Listener = Callable[[ev.Event], None]
T = TypeVar("T")
Answerer = Callable[[ev.Question | ev.Permission], Awaitable[Answer]]


class Asking(Protocol):
    """Asks others together with the caller."""

    @property
    def patience_s(self) -> float:
        """How long a question waits for its answer."""

    async def ask(self, event: ev.Question | ev.Permission, answerer: Answerer | None) -> Answer: ...

    async def sent(self, event: ev.Question | ev.Permission) -> None:
        """The agent has been sent the answer."""


NOBODY = Answer(False, "nobody can answer now. Decide for yourself, and say what you assumed.")
REFUSED = Answer(False, "this run may not use the tool. Go on without it, and say what is missing.")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an attempt needs."""

    agent: Agent
    runtime: Runtime
    request: Request
    place: RunPlace
    env: Mapping[str, str]
    home: Path
    command: Command | None = None
    """The agent's command for this request, if it has been built already."""
    base: Totals = Totals()
    limits: Limits = Limits()
    redactor: Redactor = Redactor(())
    claims: tuple[int, ...] = ()
    """Open files whose locks the CLI also holds while it lives."""


async def attempt(
    task: Task,
    *,
    on_event: Listener | None = None,
    answer: Replies | None = None,
    cancel: Cancel | None = None,
) -> Outcome:
    """Run the CLI. Its failure is an outcome; only misuse raises."""
    command = task.command or task.agent.command(task.request, task.runtime, task.place)
    _prepare(task.place, command)
    fold = StreamFold(task.agent, task.request, task.runtime, task.redactor, on_event)
    env = {**task.env, **command.env, "PWD": str(command.cwd)}
    async with (
        launch(
            command, env=env, run_dir=task.place.run_dir, limits=task.limits, claims=task.claims
        ) as running,
        Answering(task.agent, running, answer or Replies(None)) as answering,
    ):
        if cancel is not None:
            cancel.follow(running)
        async for line in running.lines():
            for event in fold.feed(line):
                if isinstance(event, ev.End):
                    await running.finish()
                elif isinstance(event, ev.Question | ev.Permission):
                    answering.take(event)
        fold.close()
    return _concluded(task, fold.state, running)


def _concluded(task: Task, reading: TurnState, running: Running) -> Outcome:
    ended = Ended(
        request=task.request,
        runtime=task.runtime,
        reading=reading,
        exit=running.exit,
        evidence=task.agent.evidence(task.request, task.place, task.home, reading),
        base=task.base,
        now_ms=clock.now_ms(),
    )
    outcome = marked(task.agent.conclude(ended), reading)
    return task.redactor.outcome(_explained(outcome, reading))


def marked(outcome: Outcome, reading: TurnState) -> Outcome:
    """The outcome with what the stream says in the same way for every agent."""
    compacted = outcome.compacted or reading.compacted
    outcome = msgspec.structs.replace(outcome, compacted=compacted, asked=reading.asked)
    if not nothing_known(outcome):
        return outcome
    return msgspec.structs.replace(outcome, usage=Usage(), cost_usd=outcome.cost_usd or None)


def _explained(outcome: Outcome, reading: TurnState) -> Outcome:
    """If the time limit interrupted the CLI's own retries, say what was retried."""
    failure, retry = outcome.failure, reading.last_retry
    if failure is None or failure.kind != "timeout" or retry is None or retry.message in failure.message:
        return outcome
    message = f"{failure.message}; it was still retrying: {retry.message}"[:500]
    return msgspec.structs.replace(outcome, failure=msgspec.structs.replace(failure, message=message))


def _prepare(place: RunPlace, command: Command) -> None:
    place.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path, text in command.files.items():
        write_whole(path, text.encode(), durable=False)  # for this one process


def events_of(agent: Agent, line: bytes | Oversize) -> Sequence[ev.Event]:
    """The events of a line of output; a line that was too long is reported as skipped."""
    if isinstance(line, Oversize):
        return (ev.Unknown("", f"a line of {line.length} bytes was skipped"),)
    return agent.parse(line)


class Cancellable(Protocol):
    """What runs, and can be ended: called in the event loop, once for each wish."""

    def cancel(self) -> None: ...


class Cancel:
    """A handle to stop a running attempt, from any thread: the first call ends it, the second kills it."""

    def __init__(self) -> None:
        self.asked = 0
        self._running: Cancellable | None = None
        self._loop: AbstractEventLoop | None = None

    def __call__(self) -> None:
        self.asked += 1
        if self._running is not None and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it has ended
                self._loop.call_soon_threadsafe(self._running.cancel)

    def follow(self, running: Cancellable) -> None:
        from asyncio import get_running_loop

        self._running, self._loop = running, get_running_loop()
        for _ in range(self.asked):
            running.cancel()


class StreamFold:
    """Reads the lines of a run: passes their events to the listener, without secrets, and adds them up."""

    def __init__(
        self,
        agent: Agent,
        request: Request,
        runtime: Runtime,
        redactor: Redactor,
        listener: Listener | None = None,
    ) -> None:
        self.state = TurnState()
        self._agent, self._redact = agent, StreamRedactor(redactor)
        self._tell = ReplayFilter(listener, request, runtime)

    def feed(self, line: bytes | Oversize) -> Iterator[ev.Event]:
        """The events of a line, unaltered, so that questions among them can be answered."""
        raw = None if isinstance(line, Oversize) else line
        for event in events_of(self._agent, line):
            for shown in self._redact(event, raw):
                self._add(shown)
            yield event

    def close(self) -> None:
        """No more lines follow."""
        for shown in self._redact.rest():
            self._add(shown)
        self._tell.end()

    def _add(self, shown: ev.Event) -> None:
        self.state.add(shown)
        self._tell(shown)


class ReplayFilter:
    """Passes events on. If a resume replays the history, they wait until this turn's message appears."""

    def __init__(self, listener: Listener | None, request: Request, runtime: Runtime) -> None:
        self._listener = listener
        self._prompt = request.prompt
        self._waiting = runtime.capabilities.replays and request.start.mode != "fresh"
        self._held: list[ev.Event] = []

    def __call__(self, event: ev.Event) -> None:
        if isinstance(event, ev.Heard):
            self._held.clear()
            self._waiting = self._waiting and event.text.strip() != self._prompt.strip()
        elif self._waiting:
            self._held.append(event)
        elif self._listener is not None:
            self._listener(event)

    def end(self) -> None:
        """If this turn's message never appeared verbatim, the events after the last message are its own."""
        self._waiting = False
        for event in self._held:
            self(event)


class Guard:
    """Guards a callback of the caller: its first exception is logged, and it is not called any more."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.failed: Exception | None = None

    def note(self, error: Exception) -> None:
        self.failed = error
        import logging  # rarely needed

        log = logging.getLogger("segue")
        log.warning("%s raised %r and is not called any more in this turn", self._name, error)
        log.debug("where %s raised it", self._name, exc_info=error)

    def told(self) -> Said | None:
        """The notice about a callback that raised, if it did."""
        name, error = self._name, self.failed
        text = f"{name} raised {error!r} and was called no more"[:300]
        return say(text, "notice.raised", name=name, error=f"{error!r:.300}") if error is not None else None


class Guarded(Guard, Generic[T]):
    """A guarded callback without a result."""

    def __init__(self, name: str, listener: Callable[[T], None] | None) -> None:
        super().__init__(name)
        self._listener = listener

    def __call__(self, what: T) -> None:
        if self._listener is None or self.failed is not None:
            return
        try:
            self._listener(what)
        except Exception as error:
            self.note(error)


class Replies(Guard):
    """The caller's callback that answers questions. If it raises, or does not return an answer, the agent is
    told that nobody can answer, and continues."""

    def __init__(self, answerer: Answerer | None) -> None:
        super().__init__("answer")
        self._answerer = answerer
        self.others: Asking | None = None

    @property
    def expected(self) -> bool:
        """Whether anybody is expected to answer."""
        return self._answerer is not None and self.failed is None

    async def reply(self, agent: Agent, event: ev.Question | ev.Permission) -> bytes:
        """The line that is sent back to the agent."""
        answer = await self.answer(event)
        try:
            return agent.reply(event, answer)
        except Exception as error:
            self.note(error)
        return agent.reply(event, _default(event))

    async def answer(self, event: ev.Question | ev.Permission) -> Answer:
        """What the caller answers, or somebody else who is asked together with the caller."""
        answerer = self._answerer if self.failed is None else None
        try:
            if self.others is not None:
                return await self.others.ask(event, answerer)
            if answerer is not None:
                return await answerer(event)
        except Exception as error:
            self.note(error)
        return _default(event)

    async def sent(self, event: ev.Question | ev.Permission) -> None:
        if self.others is not None:
            await self.others.sent(event)


def _default(event: ev.Question | ev.Permission) -> Answer:
    return NOBODY if isinstance(event, ev.Question) else REFUSED


class Answering:
    """Each question waits in a separate task, so that cancelling and time limits still work.

    The reply is built from the event as it was read, not from the redacted one.
    """

    def __init__(self, agent: Agent, running: Running, asked: Replies) -> None:
        self._agent, self._running, self._asked = agent, running, asked
        self._failure: Exception | None = None
        self._tasks: TaskGroup
        self._open = 0

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

    def take(self, event: ev.Question | ev.Permission) -> None:
        if self._asked.others is not None:
            self._running.keep_stdin(self._asked.others.patience_s)
        self._open += 1
        self._tasks.start_soon(self._answer, event)

    async def _answer(self, event: ev.Question | ev.Permission) -> None:
        try:
            await self._running.send(await self._asked.reply(self._agent, event))
            await self._asked.sent(event)
            self._open -= 1
            if not self._open:
                self._running.release_stdin()
        except Exception as failure:  # our own: otherwise the agent would wait forever
            self._failure = failure
            self._running.cancel()
