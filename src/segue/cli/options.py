"""What commands share: where they run, the options of a turn, and the prompt from the argument or stdin."""

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
"""As days, seconds, megabytes or money: more than anybody has, and little enough to count with."""


F = TypeVar("F", bound=Callable[..., Any])


def open_here() -> Workspace:
    """The store of this process's environment, and its directory."""
    from segue.app.workspace import open_workspace

    return open_workspace(os.environ, Path.cwd())


def somebody_answers() -> bool:
    """Whether a person sits at the terminal: what is asked on stderr can be answered on stdin."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


class Amount(click.FloatRange):
    """A number that can be counted with: ``inf`` and ``nan`` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a number", param, ctx)
        if number > MOST:
            self.fail(f"{value} is too large", param, ctx)
        return number


class TurnCommand(click.Command):
    """What follows ``--`` belongs to the CLI and is taken out before our own options are read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[NATIVE] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- NATIVE ARGS]"]


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


WHO = (
    click.option(
        "--agent",
        metavar="A",
        shell_complete=_complete_agents,
        help="The agent that answers. Default: the one used before, else the one in config.toml, else the "
        "first one installed, in the order of `segue agents`.",
    ),
    click.option(
        "--account",
        metavar="X",
        shell_complete=_complete_accounts,
        help="The account to use (see config.toml); none: the agent's own login.",
    ),
    click.option(
        "--model",
        metavar="M",
        help="The model, by the agent's own name for it; none: the agent's own choice.",
    ),
    click.option("--role", metavar="R", help="The role the agent plays in this conversation; none: no role."),
    click.option(
        "--cwd",
        metavar="D",
        type=click.Path(),
        help="Work in this directory. Default: the conversation's own, if you are inside it.",
    ),
    click.option(
        "--fresh-session", is_flag=True, help="Start a new native session; the history is sent as text."
    ),
    click.option("--blank", is_flag=True, help="Start from nothing: carry no history over."),
    click.option(
        "--permission",
        type=click.Choice(get_args(Posture)),
        help="What it may do without asking: read, edit files here, or anything (full); default: as its own "
        "settings say. Remembered for this agent and role, like the tools and the budget.",
    ),
    click.option(
        "--allow-tool",
        "allow_tools",
        metavar="T",
        multiple=True,
        help="A tool it may use. Repeatable; none: clear the list.",
    ),
    click.option(
        "--deny-tool",
        "deny_tools",
        metavar="T",
        multiple=True,
        help="A tool it may not use. Repeatable; none: clear the list.",
    ),
    click.option("--max-turns", metavar="N", type=click.IntRange(min=1), help="Stop after N model turns."),
    click.option(
        "--budget",
        metavar="USD",
        type=Budget(),
        help="Spend at most this much in a turn; none: no limit.",
    ),
    click.option(
        "--questions",
        type=click.Choice(get_args(Questions)),
        help="Whether it may ask you questions. auto: if you are at a terminal and can answer. A session "
        "keeps the setting that it began with.",
    ),
    click.option(
        "--system-prompt-file",
        metavar="F",
        type=click.Path(),
        help="Further instructions for the agent, from a file.",
    ),
    click.option("--no-save", is_flag=True, help="Leave no native session behind."),
)
RUNNING = (
    click.option(
        "--retries",
        metavar="N",
        type=click.IntRange(min=0),
        help="After a temporary failure (a limit, the network), wait and try again, up to N times.",
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
    click.option("--events", is_flag=True, help="Print every event as a JSON line, then the object."),
    click.option("--quiet", "-q", is_flag=True, help="Print only errors on stderr."),
)


def take(*options: Callable[[F], F]) -> Callable[[F], F]:
    """All of these options, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def checked(ctx: click.Context, options: dict[str, Any]) -> Options:
    """The options as the pipeline takes them, as click has typed them; one without a value is refused."""
    for name, value in options.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise click.UsageError(f"--{name.replace('_', '-').removesuffix('s')} was given without a value")
    options["save"] = not options.pop("no_save")
    options["native_args"] = ctx.meta.get(NATIVE, ())
    return cast("Options", options)


SILENCE_S = 3.0
"""After so long without a byte it is said that we wait. Only the caller knows whether anything will come:
a pipe that a test run writes to at its end looks like one that nobody ever writes to."""
WAITING = "segue: waiting for piped input (add </dev/null if there is none)"
NOTHING = 'the prompt is empty; use segue run KEY "TEXT", or pipe it in'
CHUNK = 1 << 20


def gather_prompt(text: str | None, use_stdin: bool = True, nothing: str = NOTHING) -> str:
    """The prompt, or ``Misuse`` when there is none (``nothing`` says so) or it is not UTF-8."""
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
        raise Misuse(f"stdin cannot be read: {error.strerror or error}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise Misuse(f"the prompt on stdin is not UTF-8: byte 0x{byte:02x} at offset {error.start}") from None


def _read(descriptor: int) -> bytes:
    """Everything up to the end, however long that takes."""
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
    """Arguments that were not UTF-8 arrive with surrogates in them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Misuse(f"the prompt is not UTF-8: wrong byte at offset {error.start}") from None
    return text
