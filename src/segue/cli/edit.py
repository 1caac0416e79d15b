"""``segue edit``: change one message; what follows stays, or is cut."""

from __future__ import annotations

import click

from segue.cli import prompt as prompts
from segue.cli.options import complete_keys
from segue.cli.output import say

NOTHING = "the new text is empty; to drop a message, use segue truncate"


@click.command("edit", short_help="Change a message.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message")
@click.argument("text", required=False)
@click.option("--cut", is_flag=True, help="Drop what follows, too.")
def command(key: str, message: str, text: str | None, cut: bool) -> None:
    """Change MESSAGE (its id or #n) of the conversation KEY to TEXT, or to what is piped in.

    What follows stays, unless --cut is given. The next turn continues from the last unchanged point.
    """
    from segue.cli.changing import change, dropped, undo_hint

    new = prompts.gather(text, use_stdin=text is None, nothing=NOTHING)
    count = change(lambda segue: segue.edit(key, message, new, cut=cut))
    which = f"#{message.removeprefix('#')}" if message.removeprefix("#").isdecimal() else message
    gone = f", {dropped(count)}" if count else ""
    say(f"Changed {which}{gone}. {undo_hint(key)}", err=True)
