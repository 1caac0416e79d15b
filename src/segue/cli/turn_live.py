"""A turn on the command line: started, shown while it runs, cancelled by Ctrl-C, and what came of it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial

import anyio
from anyio.to_thread import run_sync

from segue.app.running import Answerer, Cancel, Options, ReadyTurn, ready_retry, ready_turn
from segue.cli.options import open_here, somebody_answers
from segue.cli.render import screen as screens
from segue.cli.render import words
from segue.cli.render.output import answer, say, say_json
from segue.cli.render.screen import Screen
from segue.core import events as ev
from segue.core.turn import Turn, exit_code

TICK_S = 0.2
CANCELLED = 130


def run_live(
    key: str,
    text: str | None,
    options: Options,
    *,
    again: str | None,
    as_json: bool,
    events: bool,
    quiet: bool,
    use_stdin: bool = True,
) -> int:
    """Run the turn and print it; the exit code.

    ``text`` None: the message named by ``again`` (None: the last one) is run once more.
    """
    workspace = open_here()
    try:
        answers = use_stdin and not quiet and somebody_answers()
        if text is None:
            ready = ready_retry(workspace, key, again, options, answers=answers)
        else:
            ready = ready_turn(workspace, key, text, options, answers=answers, repeatable=True)
        return _run(ready, as_json=as_json or events, events=events, quiet=quiet)
    finally:
        workspace.leave()


def _run(ready: ReadyTurn, *, as_json: bool, events: bool, quiet: bool) -> int:
    title = f"{ready.agent} · {ready.key}"
    screen = screens.open_screen(title, quiet=quiet, answer_on_stdout=not as_json)
    for notice in ready.mentions:
        screen.note(f"segue: {notice}")
    turn, stopped = anyio.run(follow, ready, screen, events)
    trouble = None
    if as_json:
        trouble = _printed(partial(say_json, turn))
    elif turn.text and not screen.shown:
        trouble = _printed(partial(answer, turn.text + "\n"))
    if turn.failure is not None:
        say(f"segue: {words.one_line(words.failure(turn, ready.label))}", err=True)
        say(f"       {words.way_on(turn, ready.number_of(turn), ready.directory)}", err=True)
    screen.note(words.summary(turn, ready.model_from))
    code = _code(turn, stopped)
    if trouble is None:
        return code
    what = f"the answer could not be written to stdout ({trouble}); it is kept: segue last {ready.key}"
    say(f"segue: {what}", err=True)
    return code or 1


def _code(turn: Turn, stopped: bool) -> int:
    """Whoever cancelled a turn while it waited for another try is not told to try again."""
    retryable = turn.failure is not None and turn.failure.retryable
    return CANCELLED if stopped and retryable else exit_code(turn)


async def follow(ready: ReadyTurn, screen: Screen, print_events: bool) -> tuple[Turn, bool]:
    """Run the turn. The first Ctrl-C (or TERM, or HUP) ends it in order, the second kills it.

    With whether it was cancelled.
    """
    cancel = Cancel()
    printer = Printer(cancel) if print_events else None
    answer_with = _question_form(screen) if ready.answers else None

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):  # the mode is decided by now
            tasks.start_soon(_entitle, screen, ready)
        if answer_with is None or not isinstance(event, ev.Question):  # else the form shows it
            screen.event(event)
        if printer is not None:
            printer(event)

    outcome: Turn | Exception
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, signals, cancel, screen)
            tasks.start_soon(_tick, screen)
            try:
                outcome = await ready.run(
                    on_event=on_event,
                    on_notice=lambda text: screen.note(f"segue: {text}"),
                    answer=answer_with,
                    cancel=cancel,
                )
            except Exception as error:
                outcome = error  # raised below, so that the task group does not wrap it
            tasks.cancel_scope.cancel()
    screen.close()
    if isinstance(outcome, Exception):
        raise outcome
    if printer is not None and printer.broken:
        raise BrokenPipeError
    return outcome, cancel.asked > 0


def _question_form(screen: Screen) -> Answerer:
    from segue.cli.question import QuestionForm

    return QuestionForm(screen)


async def _entitle(screen: Screen, ready: ReadyTurn) -> None:
    """``claude · resume · fix-auth``."""
    mode = await run_sync(ready.mode, abandon_on_cancel=True)
    screen.entitle(" · ".join(filter(None, (ready.agent, mode, ready.key))))


class Printer:
    """Events as JSON lines on stdout. When nobody reads them any more, the turn is cancelled; one that can
    write no more, because a disk is full, lets the agent work on."""

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


async def _listen(signals: AsyncIterator[signal.Signals], cancel: Cancel, screen: Screen) -> None:
    async for _ in signals:
        if cancel.asked == 0:
            screen.note("Cancelling… (again to kill)")
        cancel()


async def _tick(screen: Screen) -> None:
    while True:
        screen.tick()
        await anyio.sleep(TICK_S)


def _printed(write: Callable[[], None]) -> str | None:
    """None, or why stdout takes no more. A reader that has gone is another matter."""
    try:
        write()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left would fail again
        return error.strerror or str(error)
    return None
