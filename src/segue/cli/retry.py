"""``segue retry``: a user message once more, from that point on. Prints like ``run``."""

from __future__ import annotations

from typing import Any

import click

from segue.cli.options import OUTPUT, RUNNING, WHO, TurnCommand, checked, complete_keys, take


@click.command("retry", cls=TurnCommand, short_help="Run a user message again from that point.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("message", required=False)
@click.option("--cut", is_flag=True, help="Drop what was said after the message.")
@take(*WHO, *RUNNING, *OUTPUT)
@click.pass_context
def command(ctx: click.Context, /, key: str, message: str | None, **options: Any) -> int:
    """Run a user message of the conversation KEY again from that point; its answer is dropped.

    MESSAGE is its id, #n as segue log shows it, or the id of a run of it; without one it is the last user
    message. If more than its own answer follows, --cut is needed: that is dropped, too. segue undo takes it
    back. The agent goes on from before the message, in a branch of its own session; with --fresh-session all
    before it goes as text.

    \b
      segue retry fix-auth
      segue retry fix-auth '#3' --agent codex
    """
    from segue.cli.taking import run
    from segue.core.keys import conversation_key

    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    return run(conversation_key(key), None, checked(ctx, options), again=message, **shown)
