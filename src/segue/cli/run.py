"""``segue run``: one turn. stdout is the answer only; everything else goes to stderr."""

from __future__ import annotations

from typing import Any

import click

from segue.cli.options import TurnCommand, complete_keys, native_args, take
from segue.cli.turn_options import RUN


@click.command("run", cls=TurnCommand, short_help="Run one turn of an agent.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("text", required=False)
@take(*RUN)
@click.pass_context
def command(ctx: click.Context, /, key: str, text: str | None, **options: Any) -> int:
    """Run one turn of an agent in the conversation KEY.

    A new key starts a conversation; a known one continues where it left off. Agent, account, model, role and
    directory are remembered, so the next turn needs only the key.

    TEXT is the message. Piped input is added to it, and read to its end; use --no-stdin if it is not meant
    for the agent. Only the answer goes to stdout. Pass the text on stdin if it may begin with a dash, or if
    someone else wrote it. Arguments after -- are passed to the agent's CLI.

    From anywhere inside the conversation's directory, a turn works in that directory. From elsewhere, name it
    with --cwd, or set [defaults] directory = "remembered" in config.toml. The same text after a temporary
    failure retries that message instead of adding a second one.

    \b
      segue run fix-auth "add a test for expired tokens" --agent claude
      segue run fix-auth "now cover refresh"
      git diff | segue run review-42 "anything wrong?" --agent codex
      segue run fix-auth "continue" --adopt 4f50c2d1

    \b
    Exit codes:
        0  answered
        1  failed, and retrying will not help
        2  misuse: the line on stderr says what is wrong and what to do
       75  failed, but worth retrying: a rate limit, the network, or busy
      124  a limit was reached: time, turns or money
      130  cancelled
    """
    from segue.cli.turn import run_turn

    return run_turn(key, text, options, native_args(ctx))
