"""``segue log``: the dialogue, and the mode and cost of each answer."""

from __future__ import annotations

import sys

import click

from segue.cli.caller import open_here
from segue.cli.options import complete_keys


@click.command("log", short_help="Show a conversation.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--full", is_flag=True, help="Show whole messages instead of one line each.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(key: str, full: bool, as_json: bool) -> None:
    """Show the conversation KEY: who said what, how each answer continued the conversation (resume, replay,
    …), and its cost.

    Messages are numbered. segue edit, truncate and retry accept #n, or the id that --json shows.
    """
    from segue.app import conversations
    from segue.cli.render import dialogue
    from segue.cli.render.output import say, say_json, width_of

    with open_here() as workspace:
        shown = conversations.log(workspace, key)
    if as_json:
        say_json(shown.messages)
        return
    width = width_of(sys.stdout)
    if shown.forked_from is not None:
        say(f"a fork of {shown.forked_from}")
    for line in (*dialogue.dialogue_lines(shown, width, full=full), *dialogue.total_line(shown, width)):
        say(line)
    if not shown.messages:
        say(f'{key} has no messages yet. Send one: segue run {key} "hi"', err=True)
