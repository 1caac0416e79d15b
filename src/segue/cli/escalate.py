"""``segue escalate``: tiers of agents, each of which may do more than the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.flow_options import FLOW_OPTIONS, with_options

if TYPE_CHECKING:
    from segue.app.segue import Segue


@click.command("escalate", short_help="Run tiers of agents, from looking to repairing.")
@click.argument("file", metavar="FLOW.toml", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Nothing may be changed; the agents are told so.")
@click.option("--max-tier", type=click.IntRange(min=1), help="The highest tier that is started.")
@with_options(*FLOW_OPTIONS)
def command(
    file: str,
    dry_run: bool,
    max_tier: int | None,
    cwd: str | None,
    key: str | None,
    label: str,
    budget: float | None,
    no_daemon: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the tiers of FLOW.toml, one after the other, until one of them is done.

    Each tier says at its end whether the next one has to go on. That one continues its session, with its own
    model and permissions. segue init escalate writes an example.

    It ends as done (exit code 0), capped (the highest tier escalates, too) or failed (1), or cancelled (130).
    If the budget (--budget, or in the file) does not cover a tier, it asks, and segue answer raises it.

    The daemon runs it, if there is one. Otherwise it runs in this process, and Ctrl-C pauses it.
    """
    from segue.app.escalations import start_escalation
    from segue.cli.flow_run import daemon_runs, run_flow

    async def work(segue: Segue) -> str:
        shown = await start_escalation(
            segue,
            file,
            dry_run=dry_run,
            max_tier=max_tier,
            cwd=cwd,
            key=key,
            label=label,
            budget=budget,
            elsewhere=not no_daemon and daemon_runs(),
        )
        return shown.flow

    return run_flow(work, as_json=as_json, quiet=quiet)
