"""``segue ls``: the conversations there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from segue.system import clock

if TYPE_CHECKING:
    from segue import ConversationShown

LONGEST = 40
"""A key that is longer has a line of its own."""
RIGHT = (2, 3, 4)
LEAST = (3, 1, 2)
"""The columns that a narrow terminal goes without, in this order."""
TITLE_ROOM = 16


@click.command("ls", short_help="List the conversations.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> None:
    """List the conversations, last used first.

    ✗: the last turn failed. …: a turn is running or waiting. ↻: Segue was killed during a turn; the next
    segue run settles it.
    """
    from segue.app import conversations
    from segue.cli.options import open_here
    from segue.cli.render.output import say, say_json, width_of

    with open_here() as workspace:
        shown = conversations.ls(workspace)
    if as_json:
        say_json(shown)
        return
    if not shown:
        say('No conversations yet. Begin one: segue run hello "hi"', err=True)
        return
    for line in lines(shown, width_of(sys.stdout)):
        say(line)


def lines(shown: Sequence[ConversationShown], width: int, now_ms: int | None = None) -> Iterator[str]:
    from segue.cli.render import table, words
    from segue.cli.render.dialogue import age

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [("conversation", "agents", "messages", "cost", "last used", "", "title")]
    for each in shown:
        cost = words.money(each.cost_usd, each.cost_estimated) if each.cost_usd is not None else "–"
        who = (each.key, ", ".join(each.agents), str(each.messages), cost)
        rows.append((*who, age(each.last_used, now), _mark(each), words.one_line(each.title)))
    longest = min(LONGEST, width // 3)
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=TITLE_ROOM, longest=longest)


def _mark(each: ConversationShown) -> str:
    if each.recovery == "recover":
        return "↻"
    if each.state in ("running", "queued"):
        return "…"
    return "✗" if each.status in ("failed", "cancelled") else ""
