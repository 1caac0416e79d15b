"""``segue rm``: forget conversations."""

from __future__ import annotations

import sys

import click

from segue.cli.options import complete_keys
from segue.cli.output import agreed, say


@click.command("rm", short_help="Forget a conversation.")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…", shell_complete=complete_keys)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def command(keys: tuple[str, ...], yes: bool) -> None:
    """Forget conversations: their messages, turns and costs. The agents' own sessions stay on disk.

    On a terminal, it asks first.
    """
    from segue.cli.changing import change
    from segue.library import Segue

    keys = tuple(dict.fromkeys(keys))
    if not yes and sys.stdin.isatty() and not agreed(f"Forget {', '.join(keys)}?"):
        raise click.Abort

    async def forget(segue: Segue) -> None:
        for key in keys:
            await segue.conversation(key)
        for key in keys:
            await segue.remove(key)

    change(forget)
    say(f"Forgot {', '.join(keys)}.", err=True)
