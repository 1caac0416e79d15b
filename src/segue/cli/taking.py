"""Takes a turn on the command line: prepares it, shows it while it runs, prints what came of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import msgspec

from segue.cli import screen as screens
from segue.cli import words
from segue.cli.live import follow
from segue.core.turn import Turn, exit_code
from segue.store.store import Store
from segue.turns import changes
from segue.turns.opening import opened
from segue.turns.options import Options, ask_of
from segue.turns.prepared import Prepared, prepare


def run(
    key: str,
    text: str | None,
    options: Options,
    *,
    again: str | None,
    as_json: bool,
    events: bool,
    quiet: bool,
) -> int:
    """``text`` None: the message named by ``again`` (None: the last) is run once more."""
    store = opened(os.environ)
    try:
        message = None
        if text is None:
            message, text, options = _before(store, key, again, options)
        prepared = prepare(ask_of(key, text, options), os.environ, store, Path.cwd())
        turn = _taken(prepared, store, message, as_json=as_json or events, events=events, quiet=quiet)
    finally:
        store.leave()
    return exit_code(turn)


def _before(store: Store, key: str, named: str | None, options: Options) -> tuple[str, str, Options]:
    """The message that is run again, its text, and to whom it goes."""
    conversation = changes.known(store, key)
    message = changes.find(store, conversation, named, "user")
    return message.id, store.texts([message.id])[message.id], changes.to_whom(message, options)


def _taken(
    prepared: Prepared, store: Store, message: str | None, *, as_json: bool, events: bool, quiet: bool
) -> Turn:
    title = f"{prepared.agent.name} · {prepared.ask.key}"
    screen = screens.open_screen(title, quiet=quiet, answer_on_stdout=not as_json)
    for notice in prepared.config.mentions:
        screen.note(f"segue: {notice}")
    turn = anyio.run(follow, prepared, store, screen, events, message)
    if as_json:
        print(msgspec.json.encode(turn).decode(), flush=True)
    elif turn.text and not screen.shown:
        print(words.harmless(turn.text) if sys.stdout.isatty() else turn.text, flush=True)
    if turn.failure is not None:
        print(f"segue: {words.one_line(words.failure(turn, prepared.agent.label))}", file=sys.stderr)
        screen.note(f"       {words.way_on(turn, _number(store, turn))}")
    screen.note(words.summary(turn, prepared.model_from))
    return turn


def _number(store: Store, turn: Turn) -> int | None:
    """What the message is called by; None while it waits for its place."""
    row = store.turn(turn.run)
    ids = [message.id for message in store.messages(row.conversation)] if row is not None else []
    return ids.index(row.message) + 1 if row is not None and row.message in ids else None
