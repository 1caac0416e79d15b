"""Runs a turn on the command line: shows it while it runs, cancels it on Ctrl-C, prints the result."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial

import anyio
from anyio.to_thread import run_sync

from segue.app.running import Answerer, Cancel, Options, ReadyTurn, ready_retry, ready_turn
from segue.cli.options import can_answer, open_here
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
    message: str | None = None,
    as_json: bool,
    events: bool,
    quiet: bool,
    use_stdin: bool = True,
) -> int:
    """Run the turn and print it. Returns the exit code.

    ``text`` None: retry the user message ``message`` (None: the last one).
    """
    workspace = open_here()
    try:
        answers = use_stdin and not quiet and can_answer()
        if text is None:
            ready = ready_retry(workspace, key, message, options, answers=answers)
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
        say(f"       {words.next_step(turn, ready.number_of(turn), ready.directory)}", err=True)
    screen.note(words.summary(turn, ready.model_from))
    code = _code(turn, stopped)
    if trouble is None:
        return code
    what = f"the answer could not be written to stdout ({trouble}); print it with: segue last {ready.key}"
    say(f"segue: {what}", err=True)
    return code or 1


def _code(turn: Turn, stopped: bool) -> int:
    """The exit code; "cancelled", not "worth retrying", if it was cancelled while it waited to retry."""
    retryable = turn.failure is not None and turn.failure.retryable
    return CANCELLED if stopped and retryable else exit_code(turn)


async def follow(ready: ReadyTurn, screen: Screen, print_events: bool) -> tuple[Turn, bool]:
    """Run the turn. The first Ctrl-C (or TERM, or HUP) cancels it, the second kills it.

    Returns the turn, and whether it was cancelled.
    """
    cancel = Cancel()
    printer = Printer(cancel) if print_events else None
    answer_with = _question_form(screen) if ready.answers else None

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):  # the mode is decided by now
            tasks.start_soon(_show_mode, screen, ready)
        if answer_with is None or not isinstance(event, ev.Question):  # otherwise the form shows it
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


async def _listen(signals: AsyncIterator[signal.Signals], cancel: Cancel, screen: Screen) -> None:
    async for _ in signals:
        if cancel.asked == 0:
            screen.note("Cancelling… (press Ctrl-C again to kill it)")
        cancel()


async def _tick(screen: Screen) -> None:
    while True:
        screen.tick()
        await anyio.sleep(TICK_S)


def _printed(write: Callable[[], None]) -> str | None:
    """None, or why stdout cannot be written. ``BrokenPipeError`` is raised: the reader has gone."""
    try:
        write()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushing the rest would fail, too
        return error.strerror or str(error)
    return None
