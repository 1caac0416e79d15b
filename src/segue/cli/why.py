"""``segue why``: which mode the next turn would take, every check, and what each mode would cost."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from segue.cli.caller import can_answer, open_here
from segue.cli.options import TurnCommand, complete_keys, native_args, take
from segue.cli.turn_options import ADOPT, RUNNING, WHO, turn_options


@click.command("why", cls=TurnCommand, short_help="Show what the next turn would do, and why.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("text", required=False)
@click.option(
    "--retry", metavar="MESSAGE", help="Instead of TEXT: what segue retry of this message would do."
)
@click.option("--cut", is_flag=True, help="For --retry: what follows the message would be dropped.")
@take(*WHO, *RUNNING, ADOPT)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context, /, key: str, text: str | None, retry: str | None, as_json: bool, **options: Any
) -> None:
    """Show what segue run KEY TEXT would do with the same options, why, and what each mode would cost.

    Nothing is run or changed. Without TEXT, the cost is that of an empty message. stdin is not read.
    """
    from segue.app.ready_turn import plan as plan_of
    from segue.cli.render import why as reasons
    from segue.cli.render.output import coloured, say, say_json, width_of

    wanted = turn_options(options, native_args(ctx))
    with open_here() as workspace:
        plan = plan_of(
            workspace,
            key,
            text or "",
            wanted,
            retry_of=retry,
            answers=can_answer(),
            mention=lambda each: say(f"segue: {each}", err=True),
        )
    if as_json:
        say_json(plan)
        return
    home, width = os.environ.get("HOME", ""), width_of(sys.stdout)
    for line in reasons.why_lines(plan, width=width, home=home, colour=coloured(sys.stdout)):
        say(line)
