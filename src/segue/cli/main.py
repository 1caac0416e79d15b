"""The entry point: imports the command that is called, and turns every failure into one line and the right
exit code."""

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
    "doctor": "Check the set-up, and say how to fix what is wrong.",
    "rehearse": "Start a local test model, or run a command with it, at no cost.",
    "trust": "Let a project's segue.toml declare commands and environments.",
    "completion": "Print the shell completion script.",
}
"""Name and help of each command, so that ``segue --help`` imports none of them."""


MENTIONING = ("run", "retry", "why", "doctor", "trust", "completion", "sessions continue")
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
        _mention()


def main() -> NoReturn:
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 misuse, 75 try again, 124 limit, 130 cancelled."""
    threading.excepthook = _report_thread_failure
    try:
        _settle_environment()
        result = cli.main(prog_name="segue", standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except SystemExit as ended:  # raised by click: after a completion, or because the reader has gone
        reader_gone = type(sys.stdout).__name__ == "PacifyFlushWrapper"
        code = 141 if reader_gone else ended.code if isinstance(ended.code, int) else 0
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
        code = _complain(f"internal error: {error!r}{_kept()}", "internal", 1)
    _leave(code)


def _report_thread_failure(failed: threading.ExceptHookArgs) -> None:
    """Report the failure of a thread in one line. Python itself would also print escape sequences in it."""
    with suppress(OSError):
        say(f"segue: internal error: {failed.exc_value!r}", err=True)


def _mention() -> None:
    """Print which parts of the configuration have no effect here. Errors in it are left to the command."""
    from pathlib import Path

    from segue.config.load import load

    with suppress(SegueError, OSError):
        for mention in load(os.environ, Path.cwd()).mentions:
            say(f"segue: {mention}", err=True)


def _settle_environment() -> None:
    """Set ``HOME`` if the environment lacks it, or agents would create their homes in the project. Make
    ``SEGUE_HOME`` absolute, so that it means the same in every directory."""
    named = os.environ.get("SEGUE_HOME", "")
    if os.environ.get("HOME", "").startswith("/") and (not named or named.startswith("/")):
        return
    from pathlib import Path

    from segue.config.home import settled_environment

    os.environ.update(settled_environment(os.environ, Path.cwd()))


def _leave(code: int) -> NoReturn:
    """Exit. Output that cannot be written because the reader has gone must not cause an error at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _plain(error: click.ClickException) -> str:
    """Click's own message, with what to do if it does not say so."""
    message = error.format_message().rstrip(".")
    if "unexpected extra argument" in message:
        message += "; put the text in quotes"
    elif message.startswith("Missing argument"):
        message += "; see --help"
    return message


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the current directory no longer exists; change to another one"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _kept() -> str:
    """Write the traceback of an internal error to a file, and say where it is."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="segue-crash-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return f" (details: {file.name})"


def _complain(message: str, code: str, exit_code: int) -> int:
    """Print one line on stderr; with ``--json``, also an object as the last line of stdout."""
    line = " ".join(harmless(message).split()).encode("utf-8", "backslashreplace").decode()
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        say(f"segue: {line}", err=True)
        if {"--json", "--events"} & set(sys.argv):
            from segue.app.shapes import ErrorDetail, ErrorShown

            say_json(ErrorShown(error=ErrorDetail(code, line)))
    return exit_code
