"""``segue queue``: the runs that wait."""

from __future__ import annotations

import click

from segue.cli.caller import open_here
from segue.cli.options import complete_keys
from segue.cli.render.output import say, say_json


class QueueGroup(click.Group):
    """``segue queue KEY`` lists the queue of a conversation: what is no command is a key."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["ls", *args]
        return super().resolve_command(ctx, args)


@click.group("queue", cls=QueueGroup, invoke_without_command=True, short_help="Show or change the queue.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show the runs that wait, or change them before they start.

    segue run KEY TEXT --queue adds one. The daemon (segue serve) runs them, one after the other in each
    conversation; segue queue run KEY runs them without a daemon.

    \b
      segue queue                     all of them
      segue queue fix-auth            those of a conversation
      segue queue edit RUN "new text"
      segue queue move RUN 1
      segue queue rm RUN
    """
    if ctx.invoked_subcommand is None:
        _list(None, as_json)


@command.command("ls", short_help="List the runs that wait.")
@click.argument("key", required=False, shell_complete=complete_keys)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def ls(key: str | None, as_json: bool) -> None:
    """List the runs that wait, of all conversations or of KEY."""
    _list(key, as_json)


@command.command("edit", short_help="Change the message of a run that waits.")
@click.argument("run")
@click.argument("text")
def edit(run: str, text: str) -> None:
    """Change the message of RUN to TEXT, before it starts."""
    from segue.app.runs import edit_queued

    with open_here() as workspace:
        edit_queued(workspace, run, text)


@command.command("move", short_help="Give a run another place.")
@click.argument("run")
@click.argument("place", type=click.IntRange(min=1))
def move(run: str, place: int) -> None:
    """Move RUN to PLACE in the queue of its conversation; 1 is next."""
    from segue.app.runs import move_queued

    with open_here() as workspace:
        move_queued(workspace, run, place)


@command.command("rm", short_help="Take a run out of the queue.")
@click.argument("run")
def rm(run: str) -> None:
    """Take RUN out of the queue. Its message stays in the log, but no agent sees it."""
    from segue.app.runs import cancel_run, waiting

    with open_here() as workspace:
        waiting(workspace, run)
        cancel_run(workspace, run)


@command.command("run", short_help="Run what waits, without a daemon.")
@click.argument("key", shell_complete=complete_keys)
def run(key: str) -> None:
    """Run what waits in the conversation KEY now, in this process, one after the other.

    Use this if no daemon runs. Parked runs are waited for.
    """
    import os
    from pathlib import Path

    import anyio

    async def drain() -> None:
        from segue.app.segue import Segue

        async with Segue(env=os.environ, cwd=Path.cwd()) as segue:
            await segue.service.drain(key)

    anyio.run(drain)


def _list(key: str | None, as_json: bool) -> None:
    from segue.app.runs import queue
    from segue.cli.render import words

    with open_here() as workspace:
        waiting = queue(workspace, key)
        texts = workspace.store.texts([each.message for each in waiting])
    if as_json:
        say_json(waiting)
        return
    if not waiting:
        say("Nothing waits.", err=True)
    for each in waiting:
        when = f" until {words.moment(each.not_before)}" if each.not_before is not None else ""
        text = words.one_line(texts.get(each.message, ""))[:60]
        say(f"{each.run}  {each.conversation}  {each.place}  {each.agent}  {each.state}{when}  {text}")
