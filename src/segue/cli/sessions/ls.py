"""``segue sessions ls``: the agents' own sessions, of this directory or of all directories."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from segue.cli.render.table import positions
from segue.system import clock

if TYPE_CHECKING:
    from segue import SessionShown


class Row(NamedTuple):
    """The columns, in this order."""

    agent: str
    last_used: str
    messages: str
    size: str
    context: str
    cost: str
    session: str
    conversation: str
    directory: str
    title: str


HEAD = Row(*(name.replace("_", " ") for name in Row._fields))
RIGHT = positions(Row._fields, "last_used", "messages", "size", "context", "cost")
LEAST = positions(Row._fields, "cost", "context", "messages", "size", "conversation", "directory")
"""The columns that are left out on a narrow terminal, in this order."""
TITLE_ROOM = 24
LONGEST = 30
SOON_MS = 7 * 24 * 3_600_000
"""Sessions that the agent will delete within this time are marked."""


@click.command("ls", short_help="List the sessions of this directory, or of all directories.")
@click.option("--all", "everywhere", is_flag=True, help="Show all directories, not only this one.")
@click.option("--cwd", metavar="D", type=click.Path(), help="Show this directory. Default: the current one.")
@click.option("--agent", "agents", metavar="A", multiple=True, help="Show only this agent. Repeatable.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Show at most N, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(
    everywhere: bool, cwd: str | None, agents: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """List the sessions that the agents themselves have stored, of all accounts, most recently used first.

    A ~ before the number of messages marks an estimate, for large files (4 MB or more; in a list of more than
    500 sessions, 128 KB or more); segue sessions search counts them. The context column says how full the
    model's context window would be after a resume.
    """
    from segue.app import native
    from segue.cli.caller import open_here
    from segue.cli.render.output import say, say_json, width_of

    with open_here() as workspace:
        listed = native.ls(workspace, everywhere=everywhere, agents=agents, cwd=cwd, limit=limit)
    if as_json:
        say_json(listed.sessions)
        return
    if not listed.sessions:
        where = "anywhere" if everywhere else "in this directory; segue sessions ls --all shows all"
        say(f"No sessions {where}.", err=True)
        return
    width, names = width_of(sys.stdout), listed.names()
    for line in lines(listed.sessions, width, listed.size_limit, names, everywhere=everywhere):
        say(line)


def lines(
    sessions: Sequence[SessionShown],
    width: int,
    size_limit: int,
    names: Mapping[str, str],
    *,
    everywhere: bool,
    now_ms: int | None = None,
) -> Iterator[str]:
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [HEAD, *(_row(each, now, size_limit, names) for each in sessions)]
    if not everywhere:
        rows = [row._replace(directory="") for row in rows]
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=TITLE_ROOM, longest=LONGEST)


def _row(each: SessionShown, now: int, size_limit: int, names: Mapping[str, str]) -> Row:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age

    used, window = each.context.used, each.context.window
    messages = "–" if each.messages is None else f"{each.messages:,}"
    notes = " · ".join(note for note in _notes(each, now, size_limit) if note)
    title = words.one_line(each.title or each.first_prompt or "")
    return Row(
        agent=each.agent if each.account in (None, each.agent) else f"{each.agent} ({each.account})",
        last_used=age(each.last_used, now),
        messages=f"~{messages}" if each.messages_estimated else messages,
        size=words.size(each.size),
        context=f"{used / window:.0%}" if used is not None and window else "–",
        cost=words.money(each.cost_usd) if each.cost_usd is not None else "–",
        session=names.get(each.id, each.id[:8]),
        conversation=each.conversation or "",
        directory=_shortened(each.cwd or ""),
        title=f"{notes} · {title}" if notes else title,
    )


def _notes(each: SessionShown, now: int, size_limit: int) -> Iterator[str]:
    if each.trouble:
        yield "damaged: segue sessions check"
    elif each.size > size_limit:
        yield "too big to resume: segue sessions check"
    if each.expires is not None and each.expires - now < SOON_MS and not each.pinned:
        days = max((each.expires - now) // (24 * 3_600_000), 0)
        when = "soon" if days == 0 else "tomorrow" if days == 1 else f"in {days} days"
        yield f"deleted {when} by {each.agent}"


def _shortened(path: str) -> str:
    """The path, or the end of a long one, because paths differ there."""
    from segue.cli.render.table import ending
    from segue.cli.render.words import below_home

    return ending(below_home(path), LONGEST)
