"""``segue sessions continue``: go on with one of the agents' own sessions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli import prompt as prompts
from segue.cli.options import OUTPUT, RUNNING, WHO, TurnCommand, checked, take

if TYPE_CHECKING:
    from segue.sessions.listing import Listed

_ID = re.compile(r"(?:[a-z]+:)?[0-9a-fA-F-]{4,36}")


@click.command("continue", cls=TurnCommand, short_help="Go on with a session as a conversation.")
@click.argument("session", metavar="[ID]", required=False)
@click.argument("text", required=False)
@click.option("--key", metavar="KEY", help="The conversation's key. Default: agent and beginning of the id.")
@take(*WHO, *RUNNING, *OUTPUT)
@click.pass_context
def command(
    ctx: click.Context, /, session: str | None, text: str | None, key: str | None, **options: Any
) -> int:
    """Go on with a session: it becomes a conversation, whose next turns need only segue run KEY.

    Without ID it is the newest one of this directory, of whatever agent, as --continue takes it in the CLIs.
    A session that belongs to a conversation already goes on there. What is piped in is added to TEXT.

    \b
      segue sessions continue 4f50c2d1 "now cover refresh"
      segue sessions continue "now cover refresh"
    """
    from segue.cli.taking import run
    from segue.sessions.shelf import Shelf
    from segue.turns.opening import opened

    if session is not None and text is None and not _ID.fullmatch(session):
        session, text = None, session
    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    cwd = options.get("cwd")
    wanted = checked(ctx, options)
    said = prompts.gather(text)
    with opened(os.environ) as store:
        shelf = Shelf(os.environ, store, Path.cwd() / cwd if cwd else Path.cwd())
        found = shelf.find(session) if session is not None else shelf.newest()
        known = shelf.known(found.place.agent, found.id)
        mine = known.conversation if known.pinned else None
        name = mine or key or _free(store.free_key, store.conversation, found)
    if mine is None:
        wanted["adopt"] = f"{found.place.agent}:{found.id}"
    elif cwd is None and found.brief.cwd:
        wanted["cwd"] = found.brief.cwd
    return run(name, said, wanted, again=None, **shown)


def _free(free_key: Any, conversation: Any, found: Listed) -> str:
    """``claude-4f50c2d1``, or the first number behind it that no conversation has."""
    name = f"{found.place.agent}-{found.id[:8]}"
    return str(free_key(name)) if conversation(name) is not None else name
