"""``segue truncate``: drop a message and all after it."""

from __future__ import annotations

import click

from segue.cli.options import complete_keys
from segue.cli.output import say


@click.command("truncate", short_help="Drop a message and all after it.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message")
def command(key: str, message: str) -> None:
    """Drop MESSAGE (its id or #n) of the conversation KEY and all after it.

    The next turn goes on from before it. What is dropped stays in the store, but nobody is told of it again.
    """
    from segue.cli.changing import change, dropped, undo_hint

    count = change(lambda segue: segue.truncate(key, message))
    say(f"{dropped(count)}. {undo_hint(key)}", err=True)
