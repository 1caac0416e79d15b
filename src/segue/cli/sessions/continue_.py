"""``segue sessions continue``: go on with one of the agents' own sessions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli import options as prompts
from segue.cli.options import OUTPUT, RUNNING, WHO, TurnCommand, checked, take
from segue.cli.render.output import say

if TYPE_CHECKING:
    from segue.sessions.listing import Listed
    from segue.store.store import Store

_NOTHING = 'the prompt is empty;{} say segue sessions continue [ID] "TEXT", or pipe it in'
_ID, _DIGIT = re.compile(r"(?:[a-z/]+:)?[0-9a-fA-F-]{4,36}"), re.compile(r"\d")


@click.command("continue", cls=TurnCommand, short_help="Continue a session as a conversation.")
@click.argument("session", metavar="[ID]", required=False)
@click.argument("text", required=False)
@click.option(
    "--key", metavar="KEY", help="The conversation's key. Default: the agent and the beginning of the id."
)
@take(*WHO, *RUNNING)
@click.option("--no-stdin", is_flag=True, help="Do not read stdin, for example in a loop that reads from it.")
@take(*OUTPUT)
@click.pass_context
def command(
    ctx: click.Context, /, session: str | None, text: str | None, key: str | None, **options: Any
) -> int:
    """Continue a session: it becomes a conversation, whose next turns need only segue run KEY.

    Without ID, it is the newest session of this directory, of any agent, like --continue of the CLIs. A
    session that already belongs to a conversation continues there. Piped input is added to TEXT.

    \b
      segue sessions continue 4f50c2d1 "now cover refresh"
      segue sessions continue "now cover refresh"
    """
    from segue.app.segue import store_at_home
    from segue.cli.turn_live import run_live
    from segue.core.errors import Misuse
    from segue.sessions.catalog import SessionCatalog
    from segue.sessions.check import facts_of

    if session is not None and text is None and not _may_be_id(session):
        session, text = None, session
    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    cwd = options.get("cwd")
    use_stdin = not options.pop("no_stdin")
    wanted = checked(ctx, options)
    said = prompts.gather_prompt(
        text, use_stdin, nothing=_NOTHING.format(f' "{session}" is taken for an id;' if session else "")
    )
    with store_at_home(os.environ) as store:
        shelf = SessionCatalog(os.environ, store, Path.cwd() / cwd if cwd else Path.cwd())
        found = shelf.find(session) if session is not None else shelf.newest()
        known = shelf.known(found.place.agent, found.id)
        mine = known.conversation if known.pinned else None
        if mine is not None and key not in (None, mine):
            raise Misuse(f"the session belongs to the conversation {mine}: leave out --key, or fork {mine}")
        name = mine or key or _free(store, found)
        facts = facts_of(shelf, found)
    if mine is None or facts.end != facts.left_at:
        wanted["adopt"] = f"{found.place.agent}:{found.id}"
    if mine is not None and known.row is not None:
        wanted["agent"] = wanted.get("agent") or known.row.agent
        wanted["account"] = wanted.get("account") or known.row.account or None
        wanted["cwd"] = wanted.get("cwd") or found.brief.cwd
    if mine is None and not (shown["quiet"] or shown["as_json"] or shown["events"]):
        say(f"segue: it is now the conversation {name}; continue it with: segue run {name}", err=True)
    return run_live(name, said, wanted, again=None, **shown)


def _may_be_id(word: str) -> bool:
    """A single word with a digit is meant as an id, even if it is mistyped: a slip must cost nothing."""
    return " " not in word.strip() and len(word) >= 4 and bool(_ID.fullmatch(word) or _DIGIT.search(word))


def _free(store: Store, found: Listed) -> str:
    """``claude-4f50c2d1``, or the first number behind it that no conversation has."""
    name = f"{found.place.agent}-{found.id[:8]}"
    return store.free_key(name) if store.conversation(name) is not None else name
