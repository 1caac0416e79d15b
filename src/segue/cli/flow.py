"""``segue flow``: chains of turns that survive a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.caller import open_here
from segue.cli.render.output import answer, say, say_json

if TYPE_CHECKING:
    from segue.app.flow_shapes import FlowShown
    from segue.app.segue import Segue

FLOW = click.argument("flow")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
REPORT = click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
QUIET = click.option("--quiet", "-q", is_flag=True, help="Do not show the steps.")


@click.group("flow", short_help="Show, pause, resume, cancel or retry flows.")
def command() -> None:
    """Show flows, and stop or continue them.

    A flow is a chain of steps: turns of agents, commands, questions. Each step is recorded when it is done.
    So whatever is killed, the flow goes on where it was. FLOW is the id of a flow, its last characters, or
    its key.

    \b
      segue flow ls
      segue flow watch FLOW
      segue flow pause FLOW
      segue flow resume FLOW
    """


@command.command("ls", short_help="List the flows that are not over.")
@click.option("--all", "every", is_flag=True, help="Also those that are over.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most this many."
)
@JSON
def ls(every: bool, limit: int, as_json: bool) -> None:
    """List the flows that are not over, the newest first."""
    from segue.app.flows import ls as listed
    from segue.cli.render.flow_view import summary

    with open_here() as workspace:
        found = listed(workspace, every=every, limit=limit)
    if as_json:
        say_json(found)
        return
    if not found:
        say("No flows." if every else "No unfinished flows. --all lists the others, too.", err=True)
    for each in found:
        say(f"{each.flow}  {summary(each)}")


@command.command("show", short_help="Show a flow and its steps.")
@FLOW
@click.option("--artefact", metavar="NAME", help="Print what it keeps under NAME, such as a hand-off.")
@JSON
def show(flow: str, artefact: str | None, as_json: bool) -> None:
    """Show FLOW: its steps, what each cost, what it asks, and what it keeps."""
    from segue.app import flows

    with open_here() as workspace:
        if artefact is not None:
            answer(flows.artefact(workspace, flow, artefact).decode(errors="replace"))
            return
        shown = flows.show(workspace, flow)
    if as_json:
        say_json(shown)
    else:
        _say(shown)


@command.command("watch", short_help="Follow a flow.")
@FLOW
@REPORT
def watch(flow: str, as_json: bool) -> int:
    """Follow FLOW, whichever process runs it, until it ends or waits for somebody.

    Ctrl-C stops watching; the flow continues.
    """
    from segue.cli.flow_run import run_flow

    async def work(segue: Segue) -> str:
        return (await segue.flows.show(flow)).flow

    return run_flow(work, as_json=as_json)


@command.command("pause", short_help="Stop a flow at its next step.")
@FLOW
@JSON
def pause(flow: str, as_json: bool) -> None:
    """Stop FLOW at its next step, whichever process runs it. A turn that runs is not interrupted."""
    _stop(flow, "pause", as_json)


@command.command("cancel", short_help="End a flow.")
@FLOW
@JSON
def cancel(flow: str, as_json: bool) -> None:
    """End FLOW, whichever process runs it. A turn that runs is cancelled."""
    _stop(flow, "cancel", as_json)


@command.command("resume", short_help="Continue a flow.")
@FLOW
@click.option("--from", "from_step", metavar="STEP", help="Take back STEP and all after it first.")
@REPORT
@QUIET
def resume(flow: str, from_step: str | None, as_json: bool, quiet: bool) -> int:
    """Continue FLOW where it was, and follow it until it ends or waits for somebody.

    A flow that comes with Segue is run by the daemon, if there is one. Otherwise it runs in this process, and
    Ctrl-C pauses it. A flow of your own always runs in this process: give the command in the directory of its
    code, which is loaded from there.

    --from uses the newest version of the flow's code.
    """
    return _continue(flow, from_step, as_json, quiet, retry=False)


@command.command("retry-step", short_help="Run a step again, and what came after it.")
@FLOW
@click.argument("step")
@REPORT
@QUIET
def retry_step(flow: str, step: str, as_json: bool, quiet: bool) -> int:
    """Run STEP of FLOW again, and what came after it; then as segue flow resume.

    A turn is another run of the same message, if nothing was said after it.
    """
    return _continue(flow, step, as_json, quiet, retry=True)


def _continue(flow: str, step: str | None, as_json: bool, quiet: bool, *, retry: bool) -> int:
    from segue.app.flow_changes import resume as resumed
    from segue.cli.flow_run import daemon_runs, run_flow

    async def work(segue: Segue) -> str:
        shown = await segue.flows.show(flow)
        elsewhere = shown.built_in and daemon_runs()
        at, driver = segue.workspace, segue.service.flows
        await resumed(at, driver, shown.flow, from_step=step, retry=retry, elsewhere=elsewhere)
        return shown.flow

    return run_flow(work, as_json=as_json, quiet=quiet)


def _stop(flow: str, what: str, as_json: bool) -> None:
    import os
    from pathlib import Path

    import anyio

    async def stop() -> FlowShown:
        from segue.app.segue import Segue

        async with Segue(env=os.environ, cwd=Path.cwd()) as segue:
            return await (segue.flows.pause(flow) if what == "pause" else segue.flows.cancel(flow))

    shown = anyio.run(stop)
    if as_json:
        say_json(shown)
    elif shown.stops is not None:
        how = "is being cancelled; what runs is ended now"
        how = how if what == "cancel" else "was asked to pause; it does so at its next step"
        say(f"segue: {shown.flow} {how}", err=True)
    else:
        say(f"segue: {shown.flow} is {shown.state}", err=True)


def _say(shown: FlowShown) -> None:
    from segue.cli.render import words
    from segue.cli.render.flow_view import reason_of, step_line, summary

    say(f"{shown.flow}  {summary(shown)}")
    for step in shown.steps:
        say(f"  {step_line(step)}")
    for artefact in shown.artefacts:
        say(f"  {artefact.name}: {words.size(artefact.size)}, {artefact.media_type} ({artefact.hash[:12]})")
    for question in shown.questions:
        choices = f" ({' / '.join(question.choices)})" if question.choices else ""
        say(f"  {question.step} asks: {words.one_line(question.text)}{choices}")
    if shown.waits is not None:
        say(f"  {words.one_line(shown.waits.why)}")
    if reason := reason_of(shown):
        say(f"  {shown.end}: {words.one_line(reason)}")
    if shown.failure is not None:
        say(f"  {words.one_line(shown.failure)}")
    if shown.next is not None:
        say(f"  next: {shown.next}")
