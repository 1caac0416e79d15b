"""``segue sessions repair``: a sound copy of a session, beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from segue.sessions.repair import Repaired


@click.command("repair", short_help="Write a repaired copy of a session beside it.")
@click.argument("session", metavar="ID")
@click.option("--trim", is_flag=True, help="Drop tool output and images; keep the dialogue.")
@click.option("--since", metavar="EVENT", help="Begin at this event (segue sessions show lists the ids).")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(session: str, trim: bool, since: str | None, as_json: bool) -> None:
    """Write a new session beside the old one, without the problems that segue sessions check reports.

    The original stays as it is. The copy is read back and, if the agent's CLI is installed, resumed in a
    rehearsal that costs nothing. A conversation that used the session continues with the copy, if that holds
    exactly the same messages.
    """
    import anyio
    import msgspec

    from segue.agents.base import RepairOptions
    from segue.app.segue import store_at_home
    from segue.cli.options import find_session
    from segue.cli.render.output import say, say_json
    from segue.sessions.catalog import SessionCatalog
    from segue.sessions.repair import repair_session

    with store_at_home(os.environ) as store:
        shelf = SessionCatalog(os.environ, store, Path.cwd())
        found = find_session(shelf, store, session)
        repaired = anyio.run(
            repair_session, shelf, store, os.environ, found, RepairOptions(trim=trim, since=since)
        )
    if as_json:
        say_json({"schema": 1, "agent": found.place.agent, **msgspec.structs.asdict(repaired)})
        return
    if repaired.session == found.id:
        say("There was nothing to repair; the session stays as it is.", err=True)
        return
    say(repaired.session)
    for line in _words(repaired):
        say(line, err=True)


def _words(repaired: Repaired) -> list[str]:
    from segue.cli.render import words

    lines = [f"  {done}" for done in repaired.done] or ["  the agent's own notes were left out"]
    lines.append(f"  {words.size(repaired.size_before)} before, {words.size(repaired.size)} now")
    if repaired.rehearsed:
        lines.append("  verified: read back, and resumed in a rehearsal")
    else:
        lines.append(f"  verified: read back; not rehearsed ({repaired.why_not})")
    lines += [f"  still: {each.means}" for each in repaired.findings]
    if repaired.stays is not None:
        lines.append(f"  its conversation does not continue with the copy: {repaired.stays}")
    if repaired.conversation is not None:
        lines.append(f"  {repaired.conversation} continues with it: segue run {repaired.conversation}")
    else:
        lines.append(f"  continue with it: segue sessions continue {repaired.session[:8]}")
    return lines
