"""``segue truncate``: drop a message and all after it."""

from __future__ import annotations

import click

from segue.cli.options import complete_keys
from segue.cli.output import say


@click.command("truncate", short_help="Drop a message and everything after it.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message")
def command(key: str, message: str) -> None:
    """Drop MESSAGE (its id or #n) of the conversation KEY and everything after it.

    The next turn continues from the point before it. What is dropped stays in the store, but no agent sees it
    again; segue undo brings it back.
    """
    from segue.cli.changing import change, dropped, undo_hint

    count = change(lambda segue: segue.truncate(key, message))
    say(f"{dropped(count).capitalize()}. {undo_hint(key)}", err=True)
