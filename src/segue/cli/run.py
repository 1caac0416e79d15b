"""``segue run``: one turn. stdout is the answer only; everything else goes to stderr."""

from __future__ import annotations

from typing import Any

import click

from segue.cli import options as prompts
from segue.cli.options import OUTPUT, RUNNING, WHO, TurnCommand, checked, complete_keys, take


@click.command("run", cls=TurnCommand, short_help="Run one turn of an agent.")
@click.argument("key", shell_complete=complete_keys)
@click.argument("text", required=False)
@take(*WHO, *RUNNING)
@click.option("--adopt", metavar="SESSION", help="Import one of the agent's own sessions, and continue it.")
@click.option("--new", is_flag=True, help="Send a new message even if the same text has just failed.")
@click.option("--no-stdin", is_flag=True, help="Do not read stdin, for example in a loop that reads from it.")
@take(*OUTPUT)
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
    from segue.cli.turn_live import run_live
    from segue.core.ids import conversation_key

    key = conversation_key(key)
    shown = {name: options.pop(name) for name in ("as_json", "events", "quiet")}
    use_stdin = not options.pop("no_stdin")
    wanted = checked(ctx, options)
    prompt = prompts.gather_prompt(text, use_stdin=use_stdin)
    return run_live(key, prompt, wanted, use_stdin=use_stdin, **shown)
