"""Takes a turn on the command line: prepares it, shows it while it runs, prints what came of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import msgspec

from segue.cli import screen as screens
from segue.cli import words
from segue.cli.form import somebody_answers
from segue.cli.live import follow
from segue.cli.output import answer, say, say_json
from segue.core.errors import SegueError
from segue.core.turn import Turn, exit_code
from segue.store.store import Store
from segue.turns import changes
from segue.turns.opening import opened
from segue.turns.options import Options, ask_of
from segue.turns.prepared import Prepared, prepare

CANCELLED = 130


def run(
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
    store = opened(os.environ)
    try:
        message, via = None, "run"
        if text is None:
            message, text, options = _before(store, key, again, options)
            via = ""
        answers = use_stdin and not quiet and somebody_answers()
        ask = msgspec.structs.replace(ask_of(key, text, options, answers=answers), via=via)
        prepared = prepare(ask, os.environ, store, Path.cwd())
        return _taken(prepared, store, message, as_json=as_json or events, events=events, quiet=quiet)
    finally:
        store.leave()


def _before(store: Store, key: str, named: str | None, options: Options) -> tuple[str, str, Options]:
    """The message that is run again, its text, and to whom it goes."""
    conversation = changes.known(store, key)
    message = changes.find(store, conversation, named, "user")
    if not options.get("fork"):  # which messages there are in a fork is known once it is made
        changes.may_rerun(store, conversation.id, message.id, options.get("cut", False))
    return message.id, store.texts([message.id])[message.id], changes.as_said(store, message, options)


def _taken(
    prepared: Prepared, store: Store, message: str | None, *, as_json: bool, events: bool, quiet: bool
) -> int:
    """The exit code."""
    title = f"{prepared.agent.name} · {prepared.ask.key}"
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
        say(f"segue: {words.one_line(words.failure(turn, prepared.agent.label))}", err=True)
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
