"""The entry point: finds the command, which is imported when it is called, and turns every failure into one
line and the right exit code."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from segue import __version__
from segue.cli.render.output import harmless, say, say_json
from segue.core.errors import SegueError

PLACES = {
    **{name: f"conversation:{name}" for name in ("edit", "truncate", "undo", "fork", "export", "rm")},
    "import": "conversation:import_",
    "sessions.continue": "sessions.continue_:command",
}
"""Where a command is that is not ``command`` in a module of its own name."""


class Commands(click.Group):
    """``table``: name and help of each command, so that ``--help`` imports none of them. The module of a
    command is ``segue.cli.<prefix><name>``."""

    def __init__(self, *args: Any, table: Mapping[str, str], prefix: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table, self.prefix = table, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.table:
            return None
        module, _, function = PLACES.get(self.prefix + name, f"{self.prefix}{name}:command").partition(":")
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
    "log": "Show a conversation: who said what, how, and at what cost.",
    "ls": "List the conversations.",
    "retry": "Run a user message again.",
    "edit": "Change a message; what follows stays or is dropped.",
    "truncate": "Drop a message and everything after it.",
    "undo": "Undo the last edit, truncation or retry.",
    "last": "Print the last answer of a conversation.",
    "fork": "Continue from here, or from an earlier message, under a new key.",
    "export": "Write a conversation as Markdown or JSON.",
    "import": "Create a conversation from an export.",
    "rm": "Forget a conversation.",
    "sessions": "List, read, search, check, repair, restore or prune native sessions.",
    "agents": "List the agents, what they can do, and their accounts.",
    "doctor": "Check the set-up, and say how to fix what is wrong.",
    "rehearse": "Start a local test model, or run a command with it, at no cost.",
    "trust": "Let a project's segue.toml declare commands and environments.",
    "completion": "Print the shell completion script.",
}
"""Name and help of each command, so that ``segue --help`` imports none of them."""


MENTIONING = ("run", "retry", "why", "doctor", "trust", "completion", "sessions continue")
"""Commands that say by themselves what of the configuration was left out, or do not care."""


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

    \b
    Try it without an account:
      segue run hello "remember the number 456" --agent rehearsal
    """
    called = {ctx.invoked_subcommand, " ".join(sys.argv[1:3])}
    if not called & set(MENTIONING) and not {"-h", "--help"} & set(sys.argv):
        _mention()


def main() -> NoReturn:
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 misuse, 75 try again, 124 limit, 130 cancelled."""
    threading.excepthook = _failed_beside
    try:
        _settle_environment()
        result = cli.main(prog_name="segue", standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except SystemExit as ended:  # click's own end: of a completion, or because the reader has gone
        gone = type(sys.stdout).__name__ == "PacifyFlushWrapper"
        code = 141 if gone else ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        say(help_wanted.format_message())
        code = 2 if sys.argv[1:] else 0
    except click.ClickException as error:
        code = _complain(_plain(error), "misuse", 2)
    except SegueError as error:
        code = _complain(error.message, error.code, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _complain("cancelled", "cancelled", 130)
    except BrokenPipeError:
        code = 141
    except OSError as error:
        misuse = isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError)
        code = _complain(_why(error), "system", 2 if misuse else 1)
    except Exception as error:
        code = _complain(f"this should not have happened: {error!r}{_kept()}", "internal", 1)
    _leave(code)


def _failed_beside(failed: threading.ExceptHookArgs) -> None:
    """Of a thread's failure Python itself would print whatever is in it, escapes too."""
    with suppress(OSError):
        say(f"segue: this should not have happened: {failed.exc_value!r}", err=True)


def _mention() -> None:
    """What of the configuration has no effect here. What is wrong with it, the command itself says."""
    from pathlib import Path

    from segue.config.load import load

    with suppress(SegueError, OSError):
        for mention in load(os.environ, Path.cwd()).mentions:
            say(f"segue: {mention}", err=True)


def _settle_environment() -> None:
    """The user's home where the environment does not name it: agents would make theirs in the project. And an
    absolute ``SEGUE_HOME``, which means the same in every directory."""
    named = os.environ.get("SEGUE_HOME", "")
    if os.environ.get("HOME", "").startswith("/") and (not named or named.startswith("/")):
        return
    from pathlib import Path

    from segue.config.home import settled_environment

    os.environ.update(settled_environment(os.environ, Path.cwd()))


def _leave(code: int) -> NoReturn:
    """What cannot be written any more, because the reader has gone, must not complain at the very end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _plain(error: click.ClickException) -> str:
    """Click's own words, with what to do where they leave that open."""
    message = error.format_message().rstrip(".")
    if "unexpected extra argument" in message:
        message += "; put the text in quotes"
    elif message.startswith("Missing argument"):
        message += "; see --help"
    return message


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the current directory does not exist any more; change to another one"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _kept() -> str:
    """Where the details of a failure of our own were written."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="segue-crash-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return f" (details: {file.name})"


def _complain(message: str, code: str, exit_code: int) -> int:
    """One line on stderr; with ``--json`` also an object as stdout's last line."""
    line = " ".join(harmless(message).split()).encode("utf-8", "backslashreplace").decode()
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        say(f"segue: {line}", err=True)
        if {"--json", "--events"} & set(sys.argv):
            from segue.app.shapes import ErrorDetail, ErrorShown

            say_json(ErrorShown(error=ErrorDetail(code, line)))
    return exit_code
