"""``segue ls``: the conversations there are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.system import clock

if TYPE_CHECKING:
    from segue.store.records import Summary

LONGEST = 40
"""A key that is longer has a line of its own."""
RIGHT = (2, 3, 4)
LEAST = (3, 1, 2)
"""The columns that a narrow terminal goes without, in this order."""
TITLE_ROOM = 16
STATES = {"failed": "✗", "cancelled": "✗", "running": "…", "queued": "…"}
UNFINISHED = ("needs_you", "running", "parked", "queued")
LEFT = "↻"


@click.command("ls", short_help="List the conversations.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> None:
    """List the conversations, last used first.

    ✗: the last turn failed. …: a turn is running or waiting. ↻: Segue was killed during a turn; the next
    segue run settles it.
    """
    from segue.app.segue import store_at_home
    from segue.cli.render.output import say, say_json, width_of
    from segue.turns.projection import list_projected

    with store_at_home(os.environ) as store:
        summaries = list_projected(store, os.environ, Path.cwd())
    if as_json:
        say_json([as_object(each) for each in summaries])
        return
    if not summaries:
        say('No conversations yet. Begin one: segue run hello "hi"', err=True)
        return
    for line in lines(summaries, width_of(sys.stdout)):
        say(line)


def as_object(each: Summary) -> dict[str, Any]:
    from segue.core.turn import status_of

    return {
        "key": each.conversation.key,
        "title": each.title,
        "agents": each.agents,
        "agent": each.conversation.agent or None,
        "account": each.conversation.account or None,
        "model": each.conversation.model,
        "role": each.conversation.role or None,
        "cwd": each.conversation.cwd or None,
        "messages": each.messages,
        "state": each.state if each.state in UNFINISHED else "idle",
        "status": status_of(each.state) if each.state is not None else None,
        "recovery": each.recovery,
        "created": each.conversation.created_ms,
        "last_used": each.last_used_ms,
        "tokens": each.tokens,
        "cost_usd": each.cost_usd,
        "cost_estimated": each.cost_estimated,
        "saved_usd": each.saved_usd,
        "forked_from": each.conversation.forked_from,
    }


def lines(summaries: Sequence[Summary], width: int, now_ms: int | None = None) -> Iterator[str]:
    from segue.cli.render import table, words
    from segue.cli.render.dialogue import age

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [("conversation", "agents", "messages", "cost", "last used", "", "title")]
    for each in summaries:
        cost = words.money(each.cost_usd, each.cost_estimated) if each.cost_usd is not None else "–"
        who = (each.conversation.key, ", ".join(each.agents), str(each.messages), cost)
        mark = LEFT if each.recovery == "recover" else STATES.get(each.state or "", "")
        when = (age(each.last_used_ms, now), mark)
        rows.append((*who, *when, words.one_line(each.title)))
    longest = min(LONGEST, width // 3)
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=TITLE_ROOM, longest=longest)
