"""``segue sessions restore``: bring a session back from our copy; or list the copies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from segue.system import clock

if TYPE_CHECKING:
    from segue import CopyShown

HEAD = ("agent", "session", "kept", "size", "kept size", "", "conversation")
RIGHT = (2, 3, 4)
LEAST = (3, 4, 2)
"""The columns that a narrow terminal goes without, in this order."""
KEY_ROOM = 12


@click.command("restore", short_help="Restore a session from the copy that Segue kept.")
@click.argument("session", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or an array of all copies.")
def command(session: str | None, as_json: bool) -> None:
    """Restore a session from the copy that Segue kept of it. Without ID: list the copies.

    ID is the session's id or the beginning of it (at least 4 characters), if needed as AGENT:ID or
    AGENT/ACCOUNT:ID; or a conversation's key. The session is restored to its old place, and nothing is
    overwritten. If a conversation's session is gone, its next turn does this by itself.
    """
    import anyio

    from segue.app import upkeep
    from segue.cli.options import open_here
    from segue.cli.render.output import say, say_json

    with open_here() as workspace:
        if session is None:
            _list(upkeep.copies(workspace), as_json)
            return
        report = anyio.run(upkeep.restore, workspace, session)
    if as_json:
        say_json(report)
        return
    for each in report.restored:
        say(f"Restored {each.agent}'s session {each.id} to {each.path}")


def _list(copies: Sequence[CopyShown], as_json: bool) -> None:
    from segue.cli.render.output import say, say_json, width_of

    if as_json:
        say_json(copies)
    elif not copies:
        say("No copies are kept yet; every turn keeps one of its session.", err=True)
    else:
        for line in lines(copies, width_of(sys.stdout)):
            say(line)


def lines(copies: Sequence[CopyShown], width: int, now_ms: int | None = None) -> Iterator[str]:
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [HEAD, *(_cells(each, now) for each in copies)]
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=KEY_ROOM)


def _cells(each: CopyShown, now: int) -> tuple[str, ...]:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age

    return (
        each.agent if each.account in (None, each.agent) else f"{each.agent} ({each.account})",
        each.id,
        age(each.kept, now),
        words.size(each.size),
        words.size(each.kept_size),
        "" if each.present else "gone",
        each.conversation or "",
    )
