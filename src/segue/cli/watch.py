"""``segue watch``: follow a run that another process runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from segue.cli.caller import open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import say, say_json

if TYPE_CHECKING:
    from segue.app.workspace import Workspace
    from segue.core.turn import Turn


@click.command("watch", short_help="Follow a run that another process runs.")
@click.argument("name", metavar="KEY|RUN", shell_complete=complete_keys)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines, then the turn.")
def command(name: str, as_json: bool) -> int:
    """Follow a run by its id, or the one that runs in a conversation, to its end. Prints like segue run.

    Ctrl-C stops watching; the run continues. To end it, use segue cancel.
    """
    import anyio

    from segue.app.runs import is_alive, mark_read, unfinished
    from segue.core.turn import exit_code

    with open_here() as workspace:
        runs = unfinished(workspace, name)
        if not runs:
            say(f"segue: nothing runs in {name}; segue last {name} prints the last answer", err=True)
            return 1
        if not is_alive(workspace, runs[0]):
            say("segue: the process that ran it is gone; the next segue run records what it did", err=True)
            return 1
        turn = anyio.run(_watch, workspace, runs[0], as_json)
        if turn is not None and sys.stdout.isatty():
            mark_read(workspace, turn.run)
    return exit_code(turn) if turn is not None else 1


async def _watch(workspace: Workspace, run: str, as_json: bool) -> Turn | None:
    from segue.app.runs import followed
    from segue.cli.render import screen as screens
    from segue.cli.render.result import Facts, print_result
    from segue.core.turn import Turn, exit_code

    shown = screens.open_screen(run, quiet=False, answer_on_stdout=not as_json)
    turn: Turn | None = None
    try:
        async for event in followed(workspace, run):
            if isinstance(event, Turn):
                turn = event
            elif as_json:
                say_json(event)
            else:
                shown.event(event)
    finally:
        shown.close()
    if turn is not None:
        facts = Facts(turn.agent, None, None, None)
        print_result(turn, facts, shown, exit_code(turn), as_json=as_json)
    return turn
