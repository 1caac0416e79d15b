"""``segue undo``: take back the last edit, truncation or retry."""

from __future__ import annotations

import click

from segue.cli.options import complete_keys
from segue.cli.output import say

KINDS = {"edit": "the edit", "truncate": "the truncation", "retry": "the retry"}


@click.command("undo", short_help="Undo the last edit, truncation or retry.")
@click.argument("key", shell_complete=complete_keys)
def command(key: str) -> None:
    """Undo the last edit, truncation or retry of the conversation KEY, if nothing was said since.

    Run it again to undo the change before that. If something was said since, segue fork continues from an
    earlier message instead.
    """
    from segue.cli.changing import change

    done = change(lambda segue: segue.undo(key))
    count = len(done.removed)
    back = f"; {count:,} message{'s are' if count != 1 else ' is'} back" if count else ""
    say(f"Undid {KINDS[done.kind]}{back}. See: segue log {key}", err=True)
