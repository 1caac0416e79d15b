"""What commands share: opening the store, the options of a turn, reading the prompt."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import click

from segue.cli.render.output import say
from segue.core.errors import Misuse
from segue.core.request import Posture, Questions

if TYPE_CHECKING:
    from segue.app.ready_turn import Options
    from segue.app.workspace import Workspace

NATIVE = "segue.native"
MOST = 1e12
"""The largest number accepted as days, seconds, megabytes or money. Larger ones could overflow."""


F = TypeVar("F", bound=Callable[..., Any])


def open_here() -> Workspace:
    """Open the store for this process's environment and directory."""
    from segue.app.workspace import open_workspace

    return open_workspace(os.environ, Path.cwd())


def can_answer() -> bool:
    """Whether stdin and stderr are a terminal: a question on stderr can be answered on stdin."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


class Amount(click.FloatRange):
    """A finite number: ``inf`` and ``nan`` are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        if number > MOST:
            self.fail(f"{value} is too large", param, ctx)
        return number


class TurnCommand(click.Command):
    """What follows ``--`` belongs to the agent's CLI, and is removed before our own options are parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[NATIVE] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- AGENT_ARGS...]"]


def complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.app.conversations import keys

    with open_here() as workspace:
        return [key for key in keys(workspace) if key.startswith(incomplete)]


def _complete_agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.app.agents import agent_names

    return [name for name in agent_names(os.environ, Path.cwd()) if name.startswith(incomplete)]


def _complete_accounts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.config.load import load

    return [name for name in load(os.environ, Path.cwd()).accounts if name.startswith(incomplete)]


class Budget(Amount):
    """Money above 0, or ``none``."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "none" else super().convert(value, param, ctx)


def agent_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--agent",
        metavar="A",
        shell_complete=_complete_agents,
        help=f"The agent that answers. Default: {default}.",
    )


def cwd_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--cwd", metavar="D", type=click.Path(), help=f"Work in this directory. Default: {default}."
    )


IDENTITY = (
    click.option(
        "--account",
        metavar="X",
        shell_complete=_complete_accounts,
        help="The account to use, by its name in config.toml; 'none' for the agent's own login.",
    ),
    click.option(
        "--model",
        metavar="M",
        help="The model, by the agent's own name for it; 'none' for the agent's default.",
    ),
    click.option(
        "--role", metavar="R", help="The role the agent plays in this conversation; 'none' for no role."
    ),
)
TERMS = (
    click.option(
        "--fresh-session",
        is_flag=True,
        help="Start a new session of the agent; earlier messages are sent as text.",
    ),
    click.option("--blank", is_flag=True, help="Start without any history: send only the new message."),
    click.option(
        "--permission",
        type=click.Choice(get_args(Posture)),
        help="What the agent is allowed to do without asking: read, also edit files in the working "
        "directory, or anything (full); 'default' for what its own settings allow. Remembered for this agent "
        "and role, like the tools and the budget.",
    ),
    click.option(
        "--allow-tool",
        "allow_tools",
        metavar="T",
        multiple=True,
        help="Allow the agent this tool. Repeatable; 'none' clears the list.",
    ),
    click.option(
        "--deny-tool",
        "deny_tools",
        metavar="T",
        multiple=True,
        help="Refuse the agent this tool. Repeatable; 'none' clears the list.",
    ),
    click.option(
        "--max-turns",
        metavar="N",
        type=click.IntRange(min=1),
        help="Stop after N requests to the model.",
    ),
    click.option(
        "--budget",
        metavar="USD",
        type=Budget(),
        help="Spend at most this much in a turn; 'none' for no limit.",
    ),
    click.option(
        "--questions",
        type=click.Choice(get_args(Questions)),
        help="Whether the agent can ask you questions; 'auto': if you are at a terminal. A session keeps the "
        "setting it started with.",
    ),
    click.option(
        "--system-prompt-file",
        metavar="F",
        type=click.Path(),
        help="Read additional instructions for the agent from this file.",
    ),
    click.option("--no-save", is_flag=True, help="Do not keep the agent's session after the turn."),
)
WHO = (
    agent_option(
        "the one used before, else the one in config.toml, else the first one installed, in the order of "
        "`segue agents`"
    ),
    *IDENTITY,
    cwd_option("the conversation's own, if you are inside it"),
    *TERMS,
)
RUNNING = (
    click.option(
        "--retries",
        metavar="N",
        type=click.IntRange(min=0),
        help="After a temporary failure (a limit, the network), wait and retry, up to N times.",
    ),
    click.option("--fail-on-denied", is_flag=True, help="Fail (exit 1) if the agent was refused a tool."),
    click.option("--fork", is_flag=True, help="If another turn is running, continue in a fork (KEY~2)."),
    click.option(
        "--wait",
        metavar="S",
        type=Amount(min=0),
        help="Wait at most S seconds for another turn of the conversation (default: 600).",
    ),
    click.option(
        "--timeout",
        metavar="S",
        type=Amount(min=0, min_open=True),
        help="Stop the turn after S seconds.",
    ),
)
OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text."),
    click.option(
        "--events",
        is_flag=True,
        help="Print every event as a JSON line, then the object that --json prints.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Print only errors on stderr."),
)


def take(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Add these options to a command, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def checked(ctx: click.Context, options: dict[str, Any]) -> Options:
    """The options of a turn, from click's values. An empty value is refused."""
    for name, value in options.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise click.UsageError(f"--{name.replace('_', '-').removesuffix('s')} was given without a value")
    options["save"] = not options.pop("no_save")
    options["native_args"] = ctx.meta.get(NATIVE, ())
    return cast("Options", options)


SILENCE_S = 3.0
"""After this long without a byte, we say that we are waiting. Only the caller knows whether anything will
come: a pipe that is written to at the end of a long test run looks like one that is never written to."""
WAITING = "segue: waiting for piped input (add </dev/null if there is none)"
NOTHING = 'the prompt is empty; use segue run KEY "TEXT", or pipe it in'
CHUNK = 1 << 20


def gather_prompt(text: str | None, use_stdin: bool = True, nothing: str = NOTHING) -> str:
    """The prompt. Raises ``Misuse`` if it is empty (with the message ``nothing``) or not UTF-8."""
    given = _checked(text) if text is not None else ""
    piped = _stdin() if use_stdin else ""
    prompt = "\n\n".join(part for part in (given, piped) if part.strip())
    if not prompt.strip():
        raise Misuse(nothing)
    return prompt


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    try:
        data = _read(sys.stdin.fileno())
    except OSError as error:
        raise Misuse(f"cannot read stdin: {error.strerror or error}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise Misuse(f"the prompt on stdin is not UTF-8: byte 0x{byte:02x} at offset {error.start}") from None


def _read(descriptor: int) -> bytes:
    """Read everything up to the end, however long that takes."""
    mode = os.fstat(descriptor).st_mode
    silence = SILENCE_S if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
    chunks: list[bytes] = []
    while True:
        if not select.select([descriptor], [], [], silence)[0]:
            say(WAITING, err=True)
            silence = None
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _checked(text: str) -> str:
    """Raise ``Misuse`` for an argument that was not UTF-8: Python decodes it with surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Misuse(f"the prompt is not UTF-8: invalid byte at offset {error.start}") from None
    return text
