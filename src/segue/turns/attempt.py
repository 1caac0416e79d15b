"""One attempt: start the CLI, follow its stream to the end, and say what happened."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import Agent, Ended
from segue.core import events as ev
from segue.core.cleaning import Cleaning
from segue.core.outcome import Outcome, nothing_known
from segue.core.reading import Reading
from segue.core.redact import Redactor
from segue.core.request import Command, Place, Request, Runtime
from segue.core.usage import Totals, Usage
from segue.turns.answering import Answering, Replies
from segue.turns.runner import Limits, Oversize, Running, launch
from segue.turns.telling import Listener, Telling

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Cancel:
    """A handle to stop a running attempt, from any thread: once ends it, twice kills it."""

    def __init__(self) -> None:
        self.asked = 0
        self._running: Running | None = None
        self._loop: AbstractEventLoop | None = None

    def __call__(self) -> None:
        self.asked += 1
        if self._running is not None and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it has ended
                self._loop.call_soon_threadsafe(self._running.cancel)

    def follow(self, running: Running) -> None:
        from asyncio import get_running_loop

        self._running, self._loop = running, get_running_loop()
        for _ in range(self.asked):
            running.cancel()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an attempt needs, gathered."""

    agent: Agent
    runtime: Runtime
    request: Request
    place: Place
    env: Mapping[str, str]
    home: Path
    base: Totals = Totals()
    limits: Limits = Limits()
    redactor: Redactor = Redactor(())
    claims: tuple[int, ...] = ()
    """Open files whose locks the CLI holds too, for as long as it lives."""


async def attempt(
    task: Task,
    *,
    on_event: Listener | None = None,
    answer: Replies | None = None,
    cancel: Cancel | None = None,
) -> Outcome:
    """Run it. A failure of the CLI is an outcome; only misuse raises."""
    command = task.agent.command(task.request, task.runtime, task.place)
    _prepare(task.place, command)
    reading, cleaning = Reading(), Cleaning(task.redactor)
    tell = Telling(on_event, task.request, task.runtime)
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
            raw = None if isinstance(line, Oversize) else line
            for event in events_of(task.agent, line):
                for shown in cleaning(event, raw):
                    reading.add(shown)
                    tell(shown)
                if isinstance(event, ev.End):
                    await running.finish()
                elif isinstance(event, ev.Question | ev.Permission):
                    answering.take(event)
        for shown in cleaning.rest():
            reading.add(shown)
            tell(shown)
    tell.end()
    return _concluded(task, reading, running)


def _concluded(task: Task, reading: Reading, running: Running) -> Outcome:
    ended = Ended(
        request=task.request,
        runtime=task.runtime,
        reading=reading,
        exit=running.exit,
        evidence=task.agent.evidence(task.request, task.place, task.home, reading),
        base=task.base,
        now_ms=time.time_ns() // 1_000_000,
    )
    outcome = marked(task.agent.conclude(ended), reading)
    return task.redactor.outcome(_explained(outcome, reading))


def marked(outcome: Outcome, reading: Reading) -> Outcome:
    """The outcome with what every agent's stream tells alike."""
    compacted = outcome.compacted or reading.compacted
    outcome = msgspec.structs.replace(outcome, compacted=compacted, asked=reading.asked)
    if not nothing_known(outcome):
        return outcome
    return msgspec.structs.replace(outcome, usage=Usage(), cost_usd=outcome.cost_usd or None)


def _explained(outcome: Outcome, reading: Reading) -> Outcome:
    """A time limit that cut off the CLI's own tries says what they were about."""
    failure, retry = outcome.failure, reading.last_retry
    if failure is None or failure.kind != "timeout" or retry is None or retry.message in failure.message:
        return outcome
    told = f"{failure.message}; it was still trying again: {retry.message}"[:500]
    return msgspec.structs.replace(outcome, failure=msgspec.structs.replace(failure, message=told))


def _prepare(place: Place, command: Command) -> None:
    place.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path, text in command.files.items():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text, encoding="utf-8")


def events_of(agent: Agent, line: bytes | Oversize) -> Sequence[ev.Event]:
    """What a line of output says; one that was too long is noted as skipped."""
    if isinstance(line, Oversize):
        return (ev.Unknown("", f"a line of {line.length} bytes was skipped"),)
    return agent.parse(line)
