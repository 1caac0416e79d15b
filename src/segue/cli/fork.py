"""``segue fork``: go on from here under another key."""

from __future__ import annotations

import click

from segue.cli.options import complete_keys
from segue.cli.output import say


@click.command("fork", short_help="Continue from here under a new key.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("new_key", required=False)
@click.option("--at", "upto", metavar="MESSAGE", help="Copy up to this message (its id or #n). Default: all.")
def command(key: str, new_key: str | None, upto: str | None) -> None:
    """Create a conversation that begins with the messages of KEY, and print its key.

    Default for NEW_KEY: KEY~2. The first turn of the fork branches off the agent's session; the conversation
    KEY itself does not change.
    """
    from segue.cli.changing import change

    say(change(lambda segue: segue.fork(key, new_key, upto=upto)))
