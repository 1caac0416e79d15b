"""``segue chain``: all turns that came out of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.caller import open_here
from segue.cli.render.output import say, say_json

if TYPE_CHECKING:
    from segue.app.conversation_shapes import Chain, ChainTurn


@click.command("chain", short_help="Show turns that came out of each other.")
@click.argument("name", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(name: str, as_json: bool) -> None:
    """Show the whole chain of ID: a run, a native session, a conversation or a flow.

    A turn that continued another one comes below it. A fork, a retry or a second turn out of the same one is
    indented. Tokens and costs are what each turn used itself; failed attempts count.
    """
    from segue.app.chain import chain

    with open_here() as workspace:
        found = chain(workspace, name)
    if as_json:
        say_json(found)
        return
    _say(found)


def _say(found: Chain) -> None:
    from segue.cli.render import words
    from segue.core.usage import tokens_in_words

    if not found.turns:
        say("No turns.", err=True)
        return
    for each in found.turns:
        say(_line(each))
    used = found.usage
    cost = words.money(found.cost_usd, found.cost_estimated)
    total = f"{tokens_in_words(_sum(used.prompt))} in, {tokens_in_words(_sum(used.output))} out"
    turns = "1 turn" if len(found.turns) == 1 else f"{len(found.turns)} turns"
    say(f"total: {turns}, {total}, {cost}, {words.seconds(found.duration_ms)}")


def _line(turn: ChainTurn) -> str:
    from segue.cli.render import words
    from segue.core.usage import tokens_in_words

    part = f"tier {turn.tier}" if turn.tier is not None else turn.role or ""
    used = f"{tokens_in_words(_sum(turn.usage.prompt))} in, {tokens_in_words(_sum(turn.usage.output))} out"
    said = (
        turn.run,
        part,
        " ".join(filter(None, (turn.agent, turn.model))),
        turn.mode or "",
        turn.kind if turn.kind not in (None, turn.mode) else "",
        used,
        words.money(turn.cost_usd, turn.cost_estimated),
        words.seconds(turn.duration_ms) if turn.duration_ms is not None else "",
        turn.failure or turn.state,
    )
    return "  " * turn.depth + "  ".join(filter(None, said))


def _sum(count: int | None) -> int:
    return count or 0
