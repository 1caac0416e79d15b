"""``segue last``: the last answer of a conversation, and nothing else on stdout."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from segue.cli.options import complete_keys
from segue.cli.output import answer, say, say_json

POLL_S = 0.2


@click.command("last", short_help="Print the last answer.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--wait", is_flag=True, help="Wait for the end of a running or waiting turn first.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole turn as a JSON object.")
def command(key: str, wait: bool, as_json: bool) -> int:
    """Print the last answer of the conversation KEY.

    If the newest turn gave no answer, stderr says so, and the exit code is that turn's. A script can start a
    turn in the background and fetch its result with --wait.
    """
    from segue.cli import words
    from segue.config.homes import home_of
    from segue.config.hosts import this_host
    from segue.config.load import load
    from segue.core.keys import conversation_key
    from segue.core.turn import exit_code
    from segue.turns import changes
    from segue.turns.liveness import under_way
    from segue.turns.opening import opened

    with opened(os.environ) as store:
        conversation = changes.known(store, conversation_key(key))
        host = this_host(load(os.environ, Path.cwd()).store.host, home_of(os.environ))
        while wait and under_way(store, conversation.id, host):
            time.sleep(POLL_S)
        rows = store.log(conversation.id)
        runs = [turn for turn in store.turns(conversation.id) if turn.state != "withdrawn"]
    answers = [row for row in rows if row.sender == "assistant"]
    newest = runs[-1] if runs else None
    if answers:
        turn = answers[-1].turn.told if answers[-1].turn is not None else None
        if as_json and turn is not None:
            say_json(turn)
        else:
            answer(answers[-1].text + "\n")
    if newest is not None and newest.told is None:
        say(f"segue: a turn of {key} has not ended; --wait waits for it", err=True)
    elif newest is not None and newest.told is not None and newest.told.failure is not None:
        say(f"segue: {words.one_line(words.failure(newest.told, newest.voice.agent))}", err=True)
        return exit_code(newest.told)
    elif not answers:
        say(f"segue: {key} has no answer yet", err=True)
    return 0 if answers else 1
