"""``segue sessions continue``: continue one of the agents' own sessions."""

from __future__ import annotations

import re
from typing import Any

import click

from segue.cli.caller import gather_prompt, open_here
from segue.cli.options import TurnCommand, native_args, take
from segue.cli.render.output import say
from segue.cli.turn_options import (
    IDENTITY,
    NO_DAEMON,
    NO_STDIN,
    OUTPUT,
    RUNNING,
    TERMS,
    agent_option,
    cwd_option,
    turn_options,
)

_NOTHING = 'the prompt is empty;{} use segue sessions continue [ID] "TEXT", or pipe it in'
_WHO = (
    agent_option("the session's agent"),
    *IDENTITY,
    cwd_option("the directory where the session was started"),
    *TERMS,
)
_ID, _DIGIT = re.compile(r"(?:[a-z/]+:)?[0-9a-fA-F-]{4,36}"), re.compile(r"\d")


@click.command("continue", cls=TurnCommand, short_help="Continue a session as a conversation.")
@click.argument("session", metavar="[ID]", required=False)
@click.argument("text", required=False)
@click.option(
    "--key", metavar="KEY", help="The conversation's key. Default: the agent and the beginning of the id."
)
@take(*_WHO, *RUNNING, NO_STDIN, NO_DAEMON, *OUTPUT)
@click.pass_context
def command(
    ctx: click.Context, /, session: str | None, text: str | None, key: str | None, **options: Any
) -> int:
    """Continue a session: it becomes a conversation, which you continue with segue run KEY.

    Without ID, this is the newest session of this directory, of any agent, like the CLIs' own --continue. A
    session that already belongs to a conversation continues there. Piped input is added to TEXT. Arguments
    after -- are passed to the agent's CLI.

    \b
      segue sessions continue 4f50c2d1 "now cover refresh"
      segue sessions continue "now cover refresh"
    """
    from segue.app.native import continuation
    from segue.cli.turn import run_live

    if session is not None and text is None and not _may_be_id(session):
        session, text = None, session
    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    use_stdin, daemon = not options.pop("no_stdin"), not options.pop("no_daemon")
    wanted = turn_options(options, native_args(ctx))
    taken = f' "{session}" was read as a session id;' if session else ""
    prompt = gather_prompt(text, use_stdin, nothing=_NOTHING.format(taken))
    with open_here() as workspace:
        found = continuation(workspace, session, key, wanted)
    if found.new and not any(shown.values()):
        say(
            f"segue: it is now the conversation {found.key}; continue it with: segue run {found.key}",
            err=True,
        )
    return run_live(found.key, prompt, found.options, daemon=daemon, continues=True, **shown)


def _may_be_id(word: str) -> bool:
    """Whether it looks like an id: one word with a digit, even a mistyped one, so that a typo is not sent to
    the agent as a message."""
    return " " not in word.strip() and len(word) >= 4 and bool(_ID.fullmatch(word) or _DIGIT.search(word))
