"""``segue cancel``: end what runs or waits."""

from __future__ import annotations

import click

from segue.cli.change import change
from segue.cli.options import complete_keys
from segue.cli.render.output import say


@click.command("cancel", short_help="Cancel a run, whichever process runs it.")
@click.argument("name", metavar="KEY|RUN", shell_complete=complete_keys)
def command(name: str) -> int:
    """Cancel a run by its id, or all runs of a conversation: what runs is ended, what waits is withdrawn.

    It does not matter which process runs it. The process that waits for it exits with 130. If that process is
    gone and the agent still works, the agent is ended here.
    """
    cancelled = change("cancel", name=name)
    if not cancelled:
        say(f"segue: nothing runs or waits in {name}", err=True)
        return 1
    for run, state in cancelled:
        say(f"{run} had finished already." if state == "done" else f"Cancelled {run}.", err=True)
    return 0
