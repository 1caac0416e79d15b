"""``segue retry``: run a user message again. Prints like ``run``."""

from __future__ import annotations

from typing import Any

import click

from segue.cli.options import TurnCommand, complete_keys, native_args, take
from segue.cli.turn_options import NO_DAEMON, OUTPUT, RUNNING, WHO, turn_options


@click.command("retry", cls=TurnCommand, short_help="Run a user message again.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message", required=False)
@click.option("--cut", is_flag=True, help="Drop everything after the message.")
@take(*WHO, *RUNNING, NO_DAEMON, *OUTPUT)
@click.pass_context
def command(ctx: click.Context, /, key: str, message: str | None, **options: Any) -> int:
    """Run a user message of the conversation KEY again; its answer is dropped.

    MESSAGE is its id, its #n as shown by segue log, or the id of one of its runs. Default: the last user
    message. If more than its answer follows, --cut is required and drops all of it; segue undo restores it.
    The agent continues from the point before the message, in a branch of its session; with --fresh-session,
    everything before it is sent as text. Arguments after -- are passed to the agent's CLI.

    \b
      segue retry fix-auth
      segue retry fix-auth '#3' --agent codex
    """
    from segue.cli.turn import run_live
    from segue.core.ids import conversation_key

    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    daemon = not options.pop("no_daemon")
    return run_live(
        conversation_key(key),
        None,
        turn_options(options, native_args(ctx)),
        message=message,
        daemon=daemon,
        **shown,
    )
