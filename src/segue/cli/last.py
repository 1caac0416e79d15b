"""``segue last``: the last answer of a conversation, and nothing else on stdout."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import complete_keys
from segue.cli.render.output import answer, say, say_json
from segue.core.errors import StoreAway

if TYPE_CHECKING:
    from segue.core.turn import Turn
    from segue.store.records import LogRow, TurnRow

POLL_S = 0.2
AWAY_S = 45.0
"""So long the store may be away while somebody waits."""


@click.command("last", short_help="Print the last answer.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--wait", is_flag=True, help="Wait for the end of a running or waiting turn first.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the turn that gave it, or a failed one after it, as JSON.",
)
def command(key: str, wait: bool, as_json: bool) -> int:
    """Print the last answer of the conversation KEY.

    If the newest turn gave no answer, stderr says so, and the exit code is that turn's. A script can start a
    turn in the background and fetch its result with --wait.
    """
    from segue.app.segue import store_at_home
    from segue.cli.render import words
    from segue.config.home import home_of, this_host
    from segue.config.load import load
    from segue.core.ids import conversation_key
    from segue.core.turn import exit_code
    from segue.turns import changes
    from segue.turns.liveness import under_way
    from segue.turns.projection import projected

    with store_at_home(os.environ) as stored:
        conversation = changes.known_conversation(stored, conversation_key(key))
        host = this_host(load(os.environ, Path.cwd()).store.host, home_of(os.environ))
        while wait and _waits(lambda: under_way(stored, conversation.id, host)):
            time.sleep(POLL_S)
        store = projected(stored, conversation, os.environ, Path.cwd())
        rows = store.log(conversation.id)
        standing = {row.id for row in rows}
        runs = [turn for turn in store.turns(conversation.id) if _counts(turn, standing)]
    answers = [row for row in rows if row.sender == "assistant"]
    newest = runs[-1] if runs else None
    failed = newest.told if newest is not None and newest.told is not None and newest.told.failure else None
    if as_json:
        say_json(failed or _told(answers[-1:]) or _none(key))
    elif answers:
        answer(answers[-1].text + "\n")
    if newest is not None and newest.told is None:
        say(f"segue: a turn of {key} has not ended; --wait waits for it", err=True)
    elif newest is not None and failed is not None:
        say(f"segue: {words.one_line(words.failure(failed, newest.voice.agent))}", err=True)
        return exit_code(failed)
    elif not answers:
        say(f"segue: {key} has no answer yet", err=True)
    return 0 if answers else 1


def _waits(under_way: Callable[[], bool]) -> bool:
    """Whether there is something to wait for; while the store is away, for the store."""
    until = time.monotonic() + AWAY_S
    while True:
        try:
            return under_way()
        except StoreAway:
            if time.monotonic() > until:
                raise
            time.sleep(POLL_S)


def _counts(turn: TurnRow, standing: set[str]) -> bool:
    """A turn that never began, or whose message was dropped since, is not the newest of anything."""
    return turn.state == "queued" or (turn.state != "withdrawn" and turn.message in standing)


def _told(answers: Sequence[LogRow]) -> Turn | dict[str, Any] | None:
    """The turn that gave an answer; of one that came by an import, what the log says of it."""
    from segue.cli.render.dialogue import as_object

    if not answers:
        return None
    turn = answers[-1].turn
    return turn.told if turn is not None and turn.told is not None else as_object(answers[-1])


def _none(key: str) -> dict[str, Any]:
    return {"schema": 1, "error": {"code": "no_answer", "message": f"{key} has no answer yet"}}
