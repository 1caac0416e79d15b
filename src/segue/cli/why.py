"""``segue why``: the ladder for the next turn, each check in words, and what each rung would cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from segue.cli.options import RUNNING, WHO, TurnCommand, checked, complete_keys, take


@click.command("why", cls=TurnCommand, short_help="Show what the next turn would do, and why.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("text", required=False)
@take(*WHO, *RUNNING)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, /, key: str, text: str | None, as_json: bool, **options: Any) -> None:
    """Show what segue run KEY TEXT would do with the same options, why, and what each mode would cost.

    Nothing is run or changed. Without TEXT, the new message counts as empty; stdin is not read.
    """
    from segue.app.segue import store_at_home
    from segue.cli.question import somebody_answers
    from segue.cli.render import why as reasons
    from segue.cli.render.output import coloured, say, say_json, width_of
    from segue.core.ids import conversation_key
    from segue.turns.prepare import prepare
    from segue.turns.request import request_from_options
    from segue.turns.why import why

    wanted = checked(ctx, options)
    with store_at_home(os.environ) as store:
        answers = somebody_answers()
        ask = request_from_options(
            conversation_key(key), text or " ", wanted, may_be_empty=True, answers=answers
        )
        prepared = prepare(ask, os.environ, store, Path.cwd())
        for mention in prepared.config.mentions:
            say(f"segue: {mention}", err=True)
        found = why(prepared, store, len((text or "").encode()))
    if as_json:
        say_json(found)
        return
    home, width = os.environ.get("HOME", ""), width_of(sys.stdout)
    for line in reasons.why_lines(found, width=width, home=home, colour=coloured(sys.stdout)):
        say(line)
