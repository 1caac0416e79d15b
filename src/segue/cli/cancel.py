"""``segue cancel``: end what runs or waits."""

from __future__ import annotations

import click

from segue.cli.caller import open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import say


@click.command("cancel", short_help="Cancel a run, whichever process runs it.")
@click.argument("name", metavar="KEY|RUN", shell_complete=complete_keys)
def command(name: str) -> int:
    """Cancel a run by its id, or all runs of a conversation: what runs is ended, what waits is withdrawn.

    It does not matter which process runs it. The process that waits for it exits with 130.
    """
    from segue.app.runs import cancel_run, unfinished

    with open_here() as workspace:
        runs = unfinished(workspace, name)
        ended = [run for run in runs if cancel_run(workspace, run)]
    if not ended:
        say(f"segue: nothing runs or waits in {name}", err=True)
        return 1
    for run in ended:
        say(f"Cancelled {run}.", err=True)
    return 0
