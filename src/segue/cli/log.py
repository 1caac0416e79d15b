"""``segue log``: the dialogue, and under each answer how it came about and what it cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from segue.cli.options import complete_keys


@click.command("log", short_help="Show a conversation.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--full", is_flag=True, help="Show whole messages instead of one line each.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(key: str, full: bool, as_json: bool) -> None:
    """Show the conversation KEY: who said what, how each answer came about, and what it cost.

    Messages are numbered; segue edit, truncate and retry take #n or the id that --json shows.
    """
    from segue.app.segue import store_at_home
    from segue.cli.render import dialogue
    from segue.cli.render.output import say, say_json, width_of
    from segue.core.ids import conversation_key
    from segue.turns import changes
    from segue.turns.projection import projected

    with store_at_home(os.environ) as stored:
        conversation = changes.known_conversation(stored, conversation_key(key))
        store = projected(stored, conversation, os.environ, Path.cwd())
        turns = store.turns(conversation.id)
        rows = store.log(conversation.id, withdrawn=True)
    if as_json:
        shown: list[dict[str, Any]] = [dialogue.as_object(row) for row in rows]
        say_json(shown)
        return
    width = width_of(sys.stdout)
    if conversation.forked_from is not None:
        say(f"a fork of {conversation.forked_from}")
    for line in (*dialogue.dialogue_lines(rows, width, full=full), *dialogue.total_line(rows, turns, width)):
        say(line)
    if not rows:
        say(f'{key} has no messages yet. Say something: segue run {key} "hi"', err=True)
