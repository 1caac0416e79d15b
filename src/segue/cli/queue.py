"""``segue queue``: the runs that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.caller import open_here
from segue.cli.change import change
from segue.cli.options import complete_keys
from segue.cli.render.output import say, say_json
from segue.core.errors import Misuse
from segue.core.question import question_words

if TYPE_CHECKING:
    from segue.app.run_shapes import RunShown


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
    change("queue edit", run=run, text=text)


@command.command("move", short_help="Give a run another place.")
@click.argument("run")
@click.argument("place", type=click.IntRange(min=1))
def move(run: str, place: int) -> None:
    """Move RUN to PLACE in the queue of its conversation; 1 is next."""
    change("queue move", run=run, place=place)


@command.command("rm", short_help="Take a run out of the queue.")
@click.argument("run")
def rm(run: str) -> None:
    """Take RUN out of the queue. Its message stays in the log, but no agent sees it."""
    change("queue rm", run=run)


@command.command("run", short_help="Run what waits, without a daemon.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list of the runs.")
def run(key: str, as_json: bool) -> int:
    """Run what waits in the conversation KEY now, in this process, one after the other.

    Use this if no daemon runs, or if a failed run holds up the others ([queue] on_failure = "hold"). Parked
    runs are waited for. Prints each run when it has ended. The exit code is that of the first that failed.
    """
    import os
    from pathlib import Path

    import anyio

    from segue.core.turn import exit_code

    ended: list[RunShown] = []

    def told(each: RunShown) -> None:
        ended.append(each)
        if not as_json:
            say(_line(each, _came_of(each)))

    async def drain() -> list[RunShown]:
        from segue.app.segue import Segue

        async with Segue(env=os.environ, cwd=Path.cwd()) as segue:
            await segue.service.drain(key, told)
            left = await segue.runs.queue(key)
            for each in left:
                _refuse_stopped(each)
            return [each for each in left if each.held_by is not None]

    held = anyio.run(drain)
    if as_json:
        say_json(ended)
    if held:
        rest = "1 run waits" if len(held) == 1 else f"{len(held)} runs wait"
        say(f"segue: {rest} because {held[0].held_by} failed; go on with: segue queue run {key}", err=True)
    codes = (exit_code(each.turn) for each in ended if each.turn is not None)
    return next(filter(None, codes), 0)


def _refuse_stopped(run: RunShown) -> None:
    """Say what a run needs that could not start."""
    asked = run.question
    if asked is not None and asked.budget is not None:
        raise Misuse(f"the run {run.run} cannot start: {question_words(asked)}; see segue answer")
    if asked is not None and asked.variables:
        raise Misuse(f"the run {run.run} needs {', '.join(asked.variables)}, which is not set here")


def _came_of(run: RunShown) -> str:
    """The answer of a run, or why there is none."""
    if run.turn is None:
        return ""
    return run.turn.text if run.turn.failure is None else run.turn.failure.message


def _list(key: str | None, as_json: bool) -> None:
    from segue.app.runs import queue

    with open_here() as workspace:
        waiting = queue(workspace, key)
        texts = workspace.store.texts([each.message for each in waiting])
    if as_json:
        say_json(waiting)
        return
    if not waiting:
        say("Nothing waits.", err=True)
    for each in waiting:
        say(_line(each, texts.get(each.message, "")))


def _line(run: RunShown, text: str) -> str:
    """A run on one line. ``text``: its message, or what came of it."""
    from segue.cli.render import words

    state: str = run.state
    if run.not_before is not None:
        state += f" until {words.moment(run.not_before)}"
    if run.waits is not None:
        state += " (a budget is reserved for turns that run)"
    if run.held_by is not None:
        state += f" (held up: {run.held_by} failed)"
    place = [str(run.place)] if run.place is not None else []
    return "  ".join((run.run, run.conversation, *place, run.agent, state, words.one_line(text)[:60]))
