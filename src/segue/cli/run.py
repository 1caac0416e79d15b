"""``segue run``: one turn. stdout is the answer only; everything else goes to stderr."""

from __future__ import annotations

from typing import Any

import click

from segue.cli import prompt as prompts
from segue.cli.options import OUTPUT, RUNNING, WHO, TurnCommand, checked, complete_keys, take


@click.command("run", cls=TurnCommand, short_help="Run one turn of an agent.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("text", required=False)
@take(*WHO, *RUNNING)
@click.option(
    "--adopt", metavar="SESSION", help="Take one of the agent's own sessions in, and go on with it."
)
@click.option("--new", is_flag=True, help="A new message, although the same text failed just before.")
@click.option("--no-stdin", is_flag=True, help="Leave stdin alone, as in a loop that reads from it.")
@take(*OUTPUT)
@click.pass_context
def command(ctx: click.Context, /, key: str, text: str | None, **options: Any) -> int:
    """Run one turn of an agent in the conversation KEY.

    The conversation is made by first use of its key, and goes on from where it was. Agent, account, model,
    role and directory are remembered, so the next turn needs only the key.

    TEXT is the message; what is piped in is added to it, and waited for until it ends (--no-stdin where
    nothing is meant). stdout is the answer only. A text that may begin with a dash, or that somebody else
    wrote, belongs on stdin.

    From anywhere inside the conversation's directory a turn works in that directory; from elsewhere name it
    with --cwd, or set [defaults] directory = "remembered". The same text again after a failure that may pass
    is a retry of that message, not a second one.

    \b
      segue run fix-auth "add a test for expired tokens" --agent claude
      segue run fix-auth "now cover refresh"
      git diff | segue run review-42 "anything wrong?" --agent codex
      segue run fix-auth "go on" --adopt 4f50c2d1
    """
    from segue.cli.taking import run
    from segue.core.keys import conversation_key

    key = conversation_key(key)
    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    use_stdin = not options.pop("no_stdin")
    wanted = checked(ctx, options)
    prompt = prompts.gather(text, use_stdin=use_stdin)
    return run(key, prompt, wanted, again=None, use_stdin=use_stdin, **shown)
