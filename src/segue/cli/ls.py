"""``segue ls``: all conversations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from segue.cli.render.table import positions
from segue.system import clock

if TYPE_CHECKING:
    from segue import ConversationShown


class Row(NamedTuple):
    """The columns, in this order."""

    conversation: str
    agents: str
    messages: str
    cost: str
    last_used: str
    mark: str
    title: str


HEAD = Row("conversation", "agents", "messages", "cost", "last used", "", "title")
RIGHT = positions(Row._fields, "messages", "cost", "last_used")
LEAST = positions(Row._fields, "cost", "agents", "messages")
"""The columns that are left out on a narrow terminal, in this order."""
LONGEST = 40
"""A longer key gets a separate line."""
TITLE_ROOM = 16


@click.command("ls", short_help="List the conversations.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> None:
    """List the conversations, most recently used first.

    ✗ means that the last turn failed, … that a turn is running or waiting, and ↻ that Segue was killed during
    a turn; the next segue run recovers it.
    """
    from segue.app import conversations
    from segue.cli.caller import open_here
    from segue.cli.render.output import say, say_json, width_of

    with open_here() as workspace:
        shown = conversations.ls(workspace)
    if as_json:
        say_json(shown)
        return
    if not shown:
        say('No conversations yet. Start one: segue run hello "hi"', err=True)
        return
    for line in lines(shown, width_of(sys.stdout)):
        say(line)


def lines(shown: Sequence[ConversationShown], width: int, now_ms: int | None = None) -> Iterator[str]:
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [HEAD, *(_row(each, now) for each in shown)]
    longest = min(LONGEST, width // 3)
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=TITLE_ROOM, longest=longest)


def _row(each: ConversationShown, now: int) -> Row:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age

    return Row(
        conversation=each.key,
        agents=", ".join(each.agents),
        messages=str(each.messages),
        cost=words.money(each.cost_usd, each.cost_estimated) if each.cost_usd is not None else "–",
        last_used=age(each.last_used, now),
        mark=_mark(each),
        title=words.one_line(each.title),
    )


def _mark(each: ConversationShown) -> str:
    if each.recovery == "recover":
        return "↻"
    if each.state != "idle":
        return "…"
    return "✗" if each.status in ("failed", "cancelled") else ""
