"""All commands, as click sees them: imports the one that is called, and turns click's errors into ours."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from segue import __version__
from segue.cli.caller import say_mentions
from segue.cli.quick_start import load_msgspec
from segue.cli.render.output import say
from segue.core.errors import Misuse

PLACES = {
    **{name: f"conversation:{name}" for name in ("edit", "truncate", "undo", "fork", "export", "rm")},
    "import": "conversation:import_",
    "sessions.continue": "sessions.continue_:command",
}
"""Where commands are that are not the function ``command`` in a module with the command's name."""


class Commands(click.Group):
    """A group that imports a command only when it is called.

    ``table``: name and help of each command, for ``--help``. The module of a command is
    ``segue.cli.<prefix><name>``.
    """

    def __init__(self, *args: Any, table: Mapping[str, str], prefix: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table, self.prefix = table, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.table:
            return None
        module, _, function = PLACES.get(self.prefix + name, f"{self.prefix}{name}:command").partition(":")
        load_msgspec()
        command: click.Command = getattr(import_module(f"segue.cli.{module}"), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.table:
            from difflib import get_close_matches

            close = get_close_matches(name, self.table, 1)
            hint = f"did you mean {close[0]}?" if close else f"see {ctx.command_path} --help"
            raise click.UsageError(f'there is no command "{name}"; {hint}')
        return super().resolve_command(ctx, args)


COMMANDS = {
    "run": "Run one turn of an agent; only the answer goes to stdout.",
    "why": "Show what the next turn would do, why, and at what cost.",
    "log": "Show a conversation, with the mode and cost of each answer.",
    "ls": "List the conversations.",
    "retry": "Run a user message again.",
    "queue": "Show or change the runs that wait.",
    "watch": "Follow a run that another process runs.",
    "cancel": "Cancel a run, whichever process runs it.",
    "answer": "Answer the question of an agent or a flow.",
    "escalate": "Run tiers of agents, each of which may do more than the one before.",
    "chain": "Show all turns that came out of each other, and what they cost.",
    "review": "Let a coder work until a reviewer approves.",
    "flow": "Show, pause, resume, cancel or retry flows: chains of turns that survive a kill.",
    "edit": "Change a message; keep or drop what follows.",
    "truncate": "Drop a message and everything after it.",
    "undo": "Undo the last edit, truncation or retry.",
    "last": "Print the last answer of a conversation.",
    "fork": "Continue from here, or from an earlier message, under a new key.",
    "export": "Write a conversation as Markdown or JSON.",
    "import": "Create a conversation from an export.",
    "rm": "Forget a conversation.",
    "sessions": "List, read, search, check, repair, restore or prune the agents' own sessions.",
    "agents": "List the agents, what they can do, and their accounts.",
    "account": "Manage accounts, and switch a conversation to another one.",
    "doctor": "Check the set-up, and say how to fix what is wrong.",
    "serve": "Start the daemon: the HTTP API on this machine.",
    "stop": "End the daemon.",
    "status": "Show whether the daemon runs, and what it does.",
    "rehearse": "Start a local test model, or run a command with it, at no cost.",
    "init": "Write an example to start from.",
    "trust": "Let a project's files declare commands and grant permissions.",
    "completion": "Print the shell completion script.",
}
"""Name and help of each command, so that ``segue --help`` imports none of them."""


MENTIONING = (
    *("run", "retry", "why", "doctor", "trust", "completion", "sessions continue"),
    *("edit", "truncate", "undo", "fork", "import", "rm"),
)
"""Commands that themselves report which parts of the configuration are ignored, or need none of it."""


@click.group(
    cls=Commands,
    table=COMMANDS,
    prefix="",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="segue", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Carry a conversation across headless coding-agent runs.

    A conversation has a key that you choose. Each segue run sends one message to an agent, such as Claude
    Code or Codex, and continues where the conversation left off.

    \b
    Try it without an account:
      segue run hello "remember the number 456" --agent rehearsal
      segue run hello "what number?"
    """
    called = {ctx.invoked_subcommand, " ".join(sys.argv[1:3])}
    if not called & set(MENTIONING) and not {"-h", "--help"} & set(sys.argv):
        say_mentions()


def invoke() -> int:
    """Call the command that the command line names. Returns the exit code."""
    try:
        result = cli.main(prog_name="segue", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SystemExit as ended:  # raised by click: after a completion, or because the reader has gone
        reader_gone = type(sys.stdout).__name__ == "PacifyFlushWrapper"
        return 141 if reader_gone else ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        say(help_wanted.format_message())
        return 2 if sys.argv[1:] else 0
    except click.ClickException as error:
        raise Misuse(_plain(error)) from error
    except click.Abort:
        raise KeyboardInterrupt from None


def _plain(error: click.ClickException) -> str:
    """Click's own message, with what to do if it does not say so."""
    message = error.format_message().rstrip(".")
    if "unexpected extra argument" in message:
        ctx = error.ctx if isinstance(error, click.UsageError) else None
        takes_text = ctx is not None and any(each.name == "text" for each in ctx.command.params)
        message += "; put the text in quotes" if takes_text else "; see --help"
    elif message.startswith("Missing argument"):
        message += "; see --help"
    return message
