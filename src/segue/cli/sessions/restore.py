"""``segue sessions restore``: restore a session from Segue's copy, or list the copies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from segue.cli.render.table import positions
from segue.system import clock

if TYPE_CHECKING:
    from segue import CopyShown


class Row(NamedTuple):
    """The columns, in this order."""

    agent: str
    session: str
    kept: str
    size: str
    kept_size: str
    gone: str
    conversation: str


HEAD = Row("agent", "session", "kept", "size", "kept size", "", "conversation")
RIGHT = positions(Row._fields, "kept", "size", "kept_size")
LEAST = positions(Row._fields, "size", "kept_size", "kept")
"""The columns that are left out on a narrow terminal, in this order."""
KEY_ROOM = 12


@click.command("restore", short_help="Restore a session from the copy that Segue kept.")
@click.argument("session", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or an array of all copies.")
def command(session: str | None, as_json: bool) -> None:
    """Restore a session from the copy that Segue kept of it. Without ID, list the copies.

    ID is the session's id or the beginning of it (at least 4 characters), AGENT:ID or AGENT/ACCOUNT:ID if
    several sessions match, or a conversation's key. The session is restored to where it was. Nothing is
    overwritten. If a conversation's session is missing, its next turn restores it automatically.
    """
    from segue.cli.change import change
    from segue.cli.render.output import say, say_json

    if session is None:
        _list(as_json)
        return
    report = change("sessions restore", session=session)
    if as_json:
        say_json(report)
        return
    for each in report["restored"]:
        say(f"Restored {each['agent']}'s session {each['id']} to {each['path']}")


def _list(as_json: bool) -> None:
    from segue.app import upkeep
    from segue.cli.caller import open_here
    from segue.cli.render.output import say, say_json, width_of

    with open_here() as workspace:
        copies = upkeep.copies(workspace)
    if as_json:
        say_json(copies)
    elif not copies:
        say("No copies yet; every turn keeps a copy of its session.", err=True)
    else:
        for line in lines(copies, width_of(sys.stdout)):
            say(line)


def lines(copies: Sequence[CopyShown], width: int, now_ms: int | None = None) -> Iterator[str]:
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [HEAD, *(_row(each, now) for each in copies)]
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=KEY_ROOM)


def _row(each: CopyShown, now: int) -> Row:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age

    return Row(
        agent=each.agent if each.account in (None, each.agent) else f"{each.agent} ({each.account})",
        session=each.id,
        kept=age(each.kept, now),
        size=words.size(each.size),
        kept_size=words.size(each.kept_size),
        gone="" if each.present else "gone",
        conversation=each.conversation or "",
    )
