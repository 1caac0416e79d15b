"""One attempt: start the CLI, follow its stream to the end, and say what happened."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import Agent, Answer, Ended
from segue.core import events as ev
from segue.core.outcome import Outcome
from segue.core.reading import Reading
from segue.core.redact import Redactor
from segue.core.request import Command, Place, Request, Runtime
from segue.core.usage import Totals
from segue.turns.runner import Limits, Oversize, Running, launch
from segue.turns.telling import Listener, Telling

Answerer = Callable[[ev.Question | ev.Permission], Awaitable[Answer]]

NOBODY = Answer(False, "nobody can answer now. Decide for yourself, and say what you assumed.")
REFUSED = Answer(False, "this run may not use the tool. Go on without it, and say what is missing.")


class Cancel:
    """A handle to stop a running attempt: once ends it, twice kills it."""

    def __init__(self) -> None:
        self.asked = 0
        self._running: Running | None = None

    def __call__(self) -> None:
        self.asked += 1
        if self._running is not None:
            self._running.cancel()

    def follow(self, running: Running) -> None:
        self._running = running
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


async def attempt(
    task: Task,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
) -> Outcome:
    """Run it. A failure of the CLI is an outcome; only misuse raises."""
    command = task.agent.command(task.request, task.runtime, task.place)
    _prepare(task.place, command)
    reading = Reading()
    tell = Telling(on_event, task.request, task.runtime)
    async with launch(
        command,
        env={**task.env, **command.env, "PWD": str(command.cwd)},
        run_dir=task.place.run_dir,
        limits=task.limits,
    ) as running:
        if cancel is not None:
            cancel.follow(running)
        async for line in running.lines():
            for event in _events(task.agent, line):
                shown = task.redactor.event(event)
                reading.add(shown)
                tell(shown)
                await _react(task.agent, running, event, answer)
    tell.end()
    evidence = task.agent.evidence(task.request, task.place, task.home, reading)
    ended = Ended(
        request=task.request,
        runtime=task.runtime,
        reading=reading,
        exit=running.exit,
        evidence=evidence,
        base=task.base,
        now_ms=time.time_ns() // 1_000_000,
    )
    return task.redactor.outcome(task.agent.conclude(ended))


def _prepare(place: Place, command: Command) -> None:
    place.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path, text in command.files.items():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text, encoding="utf-8")


def _events(agent: Agent, line: bytes | Oversize) -> Sequence[ev.Event]:
    if isinstance(line, Oversize):
        return (ev.Unknown("", f"a line of {line.length} bytes was skipped"),)
    return agent.parse(line)


async def _react(agent: Agent, running: Running, event: ev.Event, answer: Answerer | None) -> None:
    """What the stream asks of us: an answer, or to let the CLI go once it has said its final word.

    The event is the one that was read, not the one that is shown: what goes back must be unaltered.
    """
    if isinstance(event, ev.End):
        await running.finish()
    elif isinstance(event, ev.Question | ev.Permission):
        refusal = NOBODY if isinstance(event, ev.Question) else REFUSED
        await running.send(agent.reply(event, refusal if answer is None else await answer(event)))
