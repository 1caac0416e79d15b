"""Runs a turn on the command line: shows it while it runs, cancels it on Ctrl-C, prints the result."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from typing import TYPE_CHECKING

from segue.app.ready_turn import Answerer, Cancel, Options, ReadyTurn, ready_retry, ready_turn
from segue.cli.caller import can_answer, open_here
from segue.cli.render import screen as screens
from segue.cli.render.output import say_json
from segue.cli.render.result import Facts, print_result
from segue.cli.render.screen import Screen
from segue.core import events as ev
from segue.core.laws import Door
from segue.core.turn import Turn, exit_code
from segue.system.loop import Begun, anyio, begin, run_sync

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from segue.cli.turn import Lost

TICK_S = 0.2
CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_here(
    key: str,
    text: str | None,
    options: Options,
    *,
    message: str | None = None,
    as_json: bool,
    events: bool,
    quiet: bool,
    use_stdin: bool = True,
    continues: bool = False,
    lost: Lost | None = None,
) -> int:
    """Run the turn in this process and print it. Returns the exit code.

    ``text`` None: retry the user message ``message`` (None: the last one). ``continues``: the user has named
    the native session that the conversation continues. ``lost``: a run that a daemon may have begun before it
    went away; if it did, that run is followed to its end.
    """
    workspace = open_here()
    try:
        answers = use_stdin and not quiet and can_answer()
        if text is None:
            ready = ready_retry(workspace, key, message, options, answers=answers)
        else:
            door = Door.CONTINUE if continues else Door.RUN
            ready = ready_turn(workspace, key, text, options, answers=answers, repeatable=True, door=door)
        if lost is not None:
            ready = ready.begun_elsewhere(lost.run)
        return _run(ready, lost, as_json=as_json or events, events=events, quiet=quiet)
    finally:
        workspace.leave()


def _run(ready: ReadyTurn, lost: Lost | None, *, as_json: bool, events: bool, quiet: bool) -> int:
    title = f"{ready.agent} · {ready.key}"
    before = lost.screen if lost is not None else None
    screen = before or screens.open_screen(title, quiet=quiet, answer_on_stdout=not as_json)
    for notice in ready.mentions if before is None else ():
        screen.note(f"segue: {notice}")
    live = TurnOnScreen(ready, screen, events, lost)
    turn = live.run()
    number = ready.number_of(turn) if turn.failure is not None else None
    facts = Facts(ready.label, ready.model_from, ready.directory, number)
    code = print_result(turn, facts, screen, _code(turn, live.cancelled), as_json=as_json)
    if sys.stdout.isatty():
        from segue.app.runs import mark_read

        mark_read(ready.workspace, turn.run)
    return code


def _code(turn: Turn, stopped: bool) -> int:
    """The exit code; "cancelled", not "worth retrying", if it was cancelled while it waited to retry."""
    retryable = turn.failure is not None and turn.failure.retryable
    return CANCELLED if stopped and retryable else exit_code(turn)


class TurnOnScreen:
    """The turn while it runs. The first Ctrl-C (or TERM, or HUP) cancels it, the second kills it."""

    def __init__(
        self, ready: ReadyTurn, screen: Screen, print_events: bool, lost: Lost | None = None
    ) -> None:
        self._ready, self._screen = ready, screen
        self._cancel = Cancel()
        self._printer = Printer(self._cancel) if print_events else None
        self._answer = _question_form(screen) if ready.answers else None
        self._tasks: TaskGroup | None = None
        self._lost, self._seen = lost, lost.events if lost is not None else 0
        """How many of its events were shown before."""
        self._signalled = self._noted = False

    @property
    def cancelled(self) -> bool:
        return self._cancel.asked > 0

    def run(self) -> Turn:
        """Run it to its end. The event loop starts when the agent does."""
        handlers = {number: signal.signal(number, self._on_signal) for number in SIGNALS}  # for now
        for _ in range(self._lost.signals() if self._lost is not None else 0):
            self._on_signal()
        running = self._ready.run(
            on_event=self._on_event,
            on_notice=self._on_notice,
            answer=self._answer,
            cancel=self._cancel,
        )
        try:
            with closing(begin(running)) as begun:
                turn = begun.result if begun.ended else anyio.run(self._follow, begun)
            self._note_cancelling()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._screen.close()
        if self._printer is not None and self._printer.broken:
            raise BrokenPipeError
        return turn

    async def _follow(self, begun: Begun[Turn]) -> Turn:
        outcome: Turn | Exception
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            self._note_cancelling()
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._listen, signals)
                self._tasks.start_soon(_tick, self._screen)
                try:
                    outcome = await begun.rest()
                except Exception as error:
                    outcome = error  # raised below, so that the task group does not wrap it
                self._tasks.cancel_scope.cancel()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _on_event(self, event: ev.Event) -> None:
        if self._seen:
            self._seen -= 1
            return
        if isinstance(event, ev.Session) and self._tasks is not None:  # the mode is decided by now
            self._tasks.start_soon(_show_mode, self._screen, self._ready)
        if self._answer is None or not isinstance(event, ev.Question | ev.Permission):  # the form shows it
            self._screen.event(event)
        if self._printer is not None:
            self._printer(event)

    def _on_notice(self, text: str) -> None:
        screens.show_notice(self._screen, f"{self._ready.agent} · {self._ready.key}", text)

    def _on_signal(self, *_: object) -> None:
        """Nothing is printed here: the signal may have interrupted something that prints."""
        self._signalled = True
        self._cancel()

    async def _listen(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for _ in signals:
            self._on_signal()
            self._note_cancelling()

    def _note_cancelling(self) -> None:
        if self._signalled and not self._noted:
            self._noted = True
            self._screen.note("Cancelling… (press Ctrl-C again to kill it)")


def _question_form(screen: Screen) -> Answerer:
    from segue.cli.question import QuestionForm

    return QuestionForm(screen)


async def _show_mode(screen: Screen, ready: ReadyTurn) -> None:
    """Set the title to ``claude · resume · fix-auth``."""
    mode = await run_sync(ready.mode, abandon_on_cancel=True)
    screen.set_title(" · ".join(filter(None, (ready.agent, mode, ready.key))))


class Printer:
    """Prints events as JSON lines on stdout. If the reader has gone, the turn is cancelled. If they cannot be
    written, for example because the disk is full, the turn continues."""

    def __init__(self, cancel: Cancel) -> None:
        self.broken = self._full = False
        self._cancel = cancel

    def __call__(self, event: ev.Event) -> None:
        if self.broken or self._full:
            return
        try:
            say_json(event)
        except BrokenPipeError:
            self.broken = True
            self._cancel()
        except OSError:
            self._full = True


async def _tick(screen: Screen) -> None:
    while True:
        screen.tick()
        await anyio.sleep(TICK_S)
