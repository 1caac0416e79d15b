"""``segue run``: one turn. stdout is the answer only; everything else goes to stderr."""

from __future__ import annotations

import os
import sys
from math import isfinite
from pathlib import Path
from typing import Any, get_args

import click

from segue.cli import prompt as prompts
from segue.cli import screen as screens
from segue.cli import words
from segue.core.request import Posture
from segue.core.turn import Turn, exit_code

NATIVE = "segue.native"


class RunCommand(click.Command):
    """What follows ``--`` belongs to the CLI and is taken out before our own options are read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[NATIVE] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- NATIVE ARGS]"]


def _complete_agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.agents.registry import names
    from segue.config.load import load

    known = names(load(os.environ, Path.cwd()))
    return [name for name in known if name.startswith(incomplete)]


def _complete_accounts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.config.load import load

    return [name for name in load(os.environ, Path.cwd()).accounts if name.startswith(incomplete)]


@click.command("run", cls=RunCommand, short_help="Run one turn of an agent.")
@click.argument("key")
@click.argument("text", required=False)
@click.option(
    "--agent",
    metavar="A",
    shell_complete=_complete_agents,
    help="Which agent answers. Default: as in config.toml, else the first one installed of claude, codex, "
    "gemini and vibe.",
)
@click.option(
    "--account", metavar="X", shell_complete=_complete_accounts, help="Under which account (config.toml)."
)
@click.option("--model", metavar="M", help="Which model, by the agent's own name for it.")
@click.option("--role", metavar="R", help="The part the agent plays in this conversation.")
@click.option("--cwd", metavar="D", type=click.Path(path_type=Path), help="Work in this directory.")
@click.option("--fresh-session", is_flag=True, help="Start a new native session.")
@click.option("--blank", is_flag=True, help="Start from nothing: carry no history over.")
@click.option("--fork", is_flag=True, help="If the session is busy, go on in a fork (fresh turns never are).")
@click.option(
    "--wait",
    metavar="S",
    type=click.FloatRange(min=0),
    help="Wait at most S seconds for a busy session (fresh turns never are).",
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    help="End the turn after S seconds.",
)
@click.option(
    "--permission",
    type=click.Choice(get_args(Posture)),
    help="What it may do unasked: read, edit files here, or all (full). Default: what its settings allow.",
)
@click.option(
    "--allow-tool", "allow_tools", metavar="T", multiple=True, help="A tool it may use. Repeatable."
)
@click.option(
    "--deny-tool", "deny_tools", metavar="T", multiple=True, help="A tool it may not use. Repeatable."
)
@click.option("--max-turns", metavar="N", type=click.IntRange(min=1), help="At most N model turns.")
@click.option(
    "--budget", metavar="USD", type=click.FloatRange(min=0, min_open=True), help="At most this much money."
)
@click.option(
    "--system-prompt-file",
    metavar="F",
    type=click.Path(path_type=Path),
    help="Instructions for the agent, beside its own.",
)
@click.option("--no-save", is_flag=True, help="Leave no native session behind.")
@click.option("--no-stdin", is_flag=True, help="Leave stdin alone, as in a loop that reads from it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@click.option("--events", is_flag=True, help="Print every event as a JSON line, then the object.")
@click.option("--quiet", "-q", is_flag=True, help="Nothing on stderr but errors.")
@click.pass_context
def command(ctx: click.Context, /, key: str, text: str | None, **options: Any) -> int:
    """Run one turn of an agent in the conversation KEY.

    TEXT is the message; what is piped in is added to it, and waited for until it ends (--no-stdin where
    nothing is meant). stdout is the answer only. A text that may begin with a dash, or that somebody else
    wrote, belongs on stdin.

    \b
      segue run fix-auth "add a test for expired tokens" --agent claude
      git diff | segue run review-42 "anything wrong?" --agent codex
    """
    from segue.core.keys import conversation_key
    from segue.turns.asking import Ask

    as_json, events, quiet = options.pop("as_json"), options.pop("events"), options.pop("quiet")
    for name, value in options.items():
        if value == "" or (name == "cwd" and value == Path()) or (isinstance(value, tuple) and "" in value):
            raise click.UsageError(f"--{name.replace('_', '-').removesuffix('s')} was given without a value")
    for name in ("timeout", "wait", "budget"):
        if options[name] is not None and not isfinite(options[name]):
            raise click.UsageError(f"--{name} takes a number, not {options[name]}")
    key = conversation_key(key)
    cwd = options.pop("cwd")
    ask = Ask(
        key=key,
        cwd=Path(cwd).expanduser() if cwd else Path.cwd(),
        native_args=ctx.meta.get(NATIVE, ()),
        save=not options.pop("no_save"),
        budget_usd=options.pop("budget"),
        timeout_s=options.pop("timeout"),
        wait_s=options.pop("wait"),
        prompt=prompts.gather(text, use_stdin=not options.pop("no_stdin")),
        **options,
    )
    return _run(ask, as_json=as_json or events, events=events, quiet=quiet)


def _run(ask: Any, *, as_json: bool, events: bool, quiet: bool) -> int:
    import anyio
    import msgspec

    from segue.cli.live import follow
    from segue.turns.prepared import prepare

    prepared = prepare(ask, os.environ)
    title = f"{prepared.agent.name} · {ask.key}"
    screen = screens.open_screen(title, quiet=quiet, answer_on_stdout=not as_json)
    for notice in prepared.config.notices:
        screen.note(f"segue: {notice}")
    turn = anyio.run(follow, prepared, screen, events)
    if as_json:
        print(msgspec.json.encode(turn).decode(), flush=True)
    elif turn.text and not screen.shown:
        print(words.harmless(turn.text) if sys.stdout.isatty() else turn.text, flush=True)
    _report(turn, prepared.agent.label, screen)
    return exit_code(turn)


def _report(turn: Turn, label: str, screen: screens.Screen) -> None:
    if turn.failure is not None:
        print(f"segue: {' '.join(words.failure(turn, label).split())}", file=sys.stderr)
    screen.note(words.summary(turn))
