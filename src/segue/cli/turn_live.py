"""Runs a prepared turn while the screen lives and Ctrl-C is heard.

Takes a turn on the command line: prepares it, shows it while it runs, prints what came of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import msgspec
from anyio.to_thread import run_sync

from segue.app.segue import store_at_home
from segue.cli.question import QuestionForm, somebody_answers
from segue.cli.render import screen as screens
from segue.cli.render import words
from segue.cli.render.output import answer, say, say_json
from segue.cli.render.screen import Screen
from segue.core import events as ev
from segue.core.errors import SegueError
from segue.core.turn import Turn, exit_code
from segue.runner.attempt import Cancel
from segue.store.store import Store
from segue.turns import changes
from segue.turns.prepare import Prepared, prepare
from segue.turns.request import Options, request_from_options
from segue.turns.turn import run

TICK_S = 0.2


async def follow(
    prepared: Prepared, store: Store, screen: Screen, print_events: bool, again: str | None
) -> tuple[Turn, bool]:
    """Take the turn. The first Ctrl-C (or TERM, or HUP) ends it in order, the second kills it.

    With whether that was wanted.
    """
    cancel = Cancel()
    printer = Printer(cancel) if print_events else None
    answer = QuestionForm(screen) if prepared.ask.answers else None

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):  # how it goes about it is decided by now
            tasks.start_soon(_entitle, screen, prepared, store)
        if answer is None or not isinstance(event, ev.Question):  # else it is asked
            screen.event(event)
        if printer is not None:
            printer(event)

    outcome: Turn | Exception
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, signals, cancel, screen)
            tasks.start_soon(_tick, screen)
            try:
                outcome = await run(
                    prepared,
                    store,
                    on_event=on_event,
                    on_notice=lambda text: screen.note(f"segue: {text}"),
                    answer=answer,
                    cancel=cancel,
                    again=again,
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


async def _entitle(screen: Screen, prepared: Prepared, store: Store) -> None:
    """``claude · resume · fix-auth``. A store that is away holds up nobody for that."""
    with suppress(SegueError):
        row = await run_sync(store.turn, prepared.run, abandon_on_cancel=True)
        mode = row.mode if row is not None else None
        screen.entitle(" · ".join(filter(None, (prepared.agent.facts.name, mode, prepared.ask.key))))


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
    """``text`` None: the message named by ``again`` (None: the last) is run once more."""
    store = store_at_home(os.environ)
    try:
        message, via = None, "run"
        if text is None:
            message, text, options = _before(store, key, again, options)
            via = ""
        answers = use_stdin and not quiet and somebody_answers()
        ask = msgspec.structs.replace(request_from_options(key, text, options, answers=answers), via=via)
        prepared = prepare(ask, os.environ, store, Path.cwd())
        return _taken(prepared, store, message, as_json=as_json or events, events=events, quiet=quiet)
    finally:
        store.leave()


def _before(store: Store, key: str, named: str | None, options: Options) -> tuple[str, str, Options]:
    """The message that is run again, its text, and to whom it goes."""
    conversation = changes.known_conversation(store, key)
    message = changes.find_message(store, conversation, named, "user")
    if not options.get("fork"):  # which messages there are in a fork is known once it is made
        changes.may_rerun(store, conversation.id, message.id, options.get("cut", False))
    return message.id, store.texts([message.id])[message.id], changes.as_said(store, message, options)


def _taken(
    prepared: Prepared, store: Store, message: str | None, *, as_json: bool, events: bool, quiet: bool
) -> int:
    """The exit code."""
    title = f"{prepared.agent.facts.name} · {prepared.ask.key}"
    screen = screens.open_screen(title, quiet=quiet, answer_on_stdout=not as_json)
    for notice in prepared.config.mentions:
        screen.note(f"segue: {notice}")
    turn, stopped = anyio.run(follow, prepared, store, screen, events, message)
    # Who cancelled it while it waited for another try is not told to try again.
    code = CANCELLED if stopped and turn.failure is not None and turn.failure.retryable else exit_code(turn)
    trouble = None
    if as_json:
        trouble = _printed(partial(say_json, turn))
    elif turn.text and not screen.shown:
        trouble = _printed(partial(answer, turn.text + "\n"))
    if turn.failure is not None:
        say(f"segue: {words.one_line(words.failure(turn, prepared.agent.facts.label))}", err=True)
        say(f"       {words.way_on(turn, _number(store, turn), prepared.named)}", err=True)
    screen.note(words.summary(turn, prepared.model_from))
    if trouble is None:
        return code
    what = f"the answer could not be written to stdout ({trouble}); it is kept: segue last {prepared.ask.key}"
    say(f"segue: {what}", err=True)
    return code or 1


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


def _number(store: Store, turn: Turn) -> int | None:
    """What the message is called by; None where it has no place, or the store is away."""
    try:
        row = store.turn(turn.run)
        ids = [message.id for message in store.messages(row.conversation)] if row is not None else []
    except SegueError:
        return None
    return ids.index(row.message) + 1 if row is not None and row.message in ids else None
