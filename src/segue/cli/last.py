"""``segue last``: the last answer of a conversation, and nothing else on stdout."""

from __future__ import annotations

import click

from segue.cli.caller import open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import answer, say, say_json


@click.command("last", short_help="Print the last answer.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--wait", is_flag=True, help="First wait until no turn is running or waiting.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the turn as JSON: the one that gave the answer, or the newest one if it failed.",
)
def command(key: str, wait: bool, as_json: bool) -> int:
    """Print the last answer of the conversation KEY.

    If the newest turn failed, stderr says so, and the exit code is that turn's. A script can start a turn in
    the background and fetch its result with --wait.
    """
    from segue.app import conversations
    from segue.app.shapes import ErrorDetail, ErrorShown
    from segue.cli.render import words
    from segue.core.turn import exit_code

    with open_here() as workspace:
        last = conversations.last(workspace, key, wait=wait)
    if as_json:
        none = ErrorShown(error=ErrorDetail("no_answer", f"{key} has no answer yet"))
        say_json(last.failed or last.told or none)
    elif last.text is not None:
        answer(last.text + "\n")
    if last.running:
        say(f"segue: a turn of {key} has not ended; use --wait to wait for it", err=True)
    elif last.failed is not None:
        say(f"segue: {words.one_line(words.failure(last.failed, last.agent or ''))}", err=True)
        return exit_code(last.failed)
    elif last.text is None:
        say(f"segue: {key} has no answer yet", err=True)
    return 0 if last.text is not None else 1
