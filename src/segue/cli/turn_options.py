"""The options of a turn, as data; and a parser for ``segue run`` that needs nothing else.

``cli/options.py`` makes click's options from the same table. Click does the help, the completion and every
message about a wrong command line. Loading it takes longer than a small turn's own work, so a command line
that is right is parsed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from segue.core.errors import Misuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypeVar

    from segue.app.ready_turn import Options

    Number = TypeVar("Number", int, float)
    Kind = Literal["text", "path", "flag", "count", "amount", "budget", "choice", "park"]
    RunCall = tuple[str, str | None, dict[str, Any], tuple[str, ...]]

MOST = 1e12
"""The largest number accepted as days, seconds, megabytes or money. Larger ones could overflow."""
NONE = "none"
PARK, ANY = "--park", "any"
"""``--park`` without a value: however long it takes."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
POSTURES = ("default", "read", "edit", "full")
QUESTIONS = ("auto", "on", "off")
"""The values of ``core.request``, which takes longer to load."""


class Option:
    """``least``: the smallest number allowed; ``above``: numbers must be larger than that."""

    def __init__(
        self,
        flag: str,
        help: str,  # noqa: A002 - as click calls it
        kind: Kind = "text",
        metavar: str | None = None,
        *,
        name: str = "",
        choices: tuple[str, ...] = (),
        multiple: bool = False,
        least: int = 0,
        above: bool = False,
        short: str = "",
        complete: Literal["", "agents", "accounts"] = "",
    ) -> None:
        self.flag, self.help, self.kind, self.metavar, self.name = flag, help, kind, metavar, name
        self.choices, self.multiple, self.least, self.above = choices, multiple, least, above
        self.short, self.complete = short, complete

    @property
    def key(self) -> str:
        """The name of its value."""
        return self.name or self.flag.removeprefix("--").replace("-", "_")


def agent_option(default: str) -> Option:
    return Option("--agent", f"The agent that answers. Default: {default}.", metavar="A", complete="agents")


def cwd_option(default: str) -> Option:
    return Option("--cwd", f"Work in this directory. Default: {default}.", "path", "D")


IDENTITY = (
    Option(
        "--account",
        "The account to use, by its name in config.toml; 'none' for the agent's own login.",
        metavar="X",
        complete="accounts",
    ),
    Option(
        "--model", "The model, by the agent's own name for it; 'none' for the agent's default.", metavar="M"
    ),
    Option("--role", "The role the agent plays in this conversation; 'none' for no role.", metavar="R"),
)
TERMS = (
    Option("--fresh-session", "Start a new session of the agent; earlier messages are sent as text.", "flag"),
    Option("--blank", "Start without any history: send only the new message.", "flag"),
    Option(
        "--permission",
        "What the agent is allowed to do without asking: read, also edit files in the working "
        "directory, or anything (full); 'default' for what its own settings allow. Remembered for this agent "
        "and role, like the tools and the budget.",
        "choice",
        choices=POSTURES,
    ),
    Option(
        "--allow-tool",
        "Allow the agent this tool. Repeatable; 'none' clears the list.",
        metavar="T",
        name="allow_tools",
        multiple=True,
    ),
    Option(
        "--deny-tool",
        "Refuse the agent this tool. Repeatable; 'none' clears the list.",
        metavar="T",
        name="deny_tools",
        multiple=True,
    ),
    Option("--max-turns", "Stop after N requests to the model.", "count", "N", least=1),
    Option(
        "--budget", "Spend at most this much in a turn; 'none' for no limit.", "budget", "USD", above=True
    ),
    Option(
        "--questions",
        "Whether the agent can ask you questions; 'auto': if you are at a terminal. A session keeps the "
        "setting it started with.",
        "choice",
        choices=QUESTIONS,
    ),
    Option("--system-prompt-file", "Read additional instructions for the agent from this file.", "path", "F"),
    Option("--no-save", "Do not keep the agent's session after the turn.", "flag"),
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
    Option(
        "--retries",
        "After a temporary failure (a limit, the network), wait and retry, up to N times.",
        "count",
        "N",
    ),
    Option(
        "--park",
        "At a usage limit, wait until it ends and continue; at most MAX: seconds, or 30m, 5h, 2d.",
        "park",
        "[MAX]",
    ),
    Option("--fail-on-denied", "Fail (exit 1) if the agent was refused a tool.", "flag"),
    Option("--fork", "If another turn is running, continue in a fork (KEY~2).", "flag"),
    Option(
        "--wait",
        "Wait at most S seconds for another turn of the conversation (default: 600).",
        "amount",
        "S",
    ),
    Option("--timeout", "Stop the turn after S seconds.", "amount", "S", above=True),
)
QUEUEING = (
    Option("--queue", "Add it to the conversation's queue and return; a daemon runs it.", "flag"),
    Option("--at", "The same, but do not start it before this time: +30m, 18:30, or a date.", metavar="TIME"),
)
ADOPT = Option("--adopt", "Import one of the agent's own sessions, and continue it.", metavar="SESSION")
MESSAGE = (
    ADOPT,
    Option("--new", "Send a new message even if the same text has just failed.", "flag"),
    Option(
        "--attach",
        "Send this file with the message: an image, and for some agents a PDF or a text. Repeatable.",
        "path",
        "FILE",
        multiple=True,
        short="-a",
    ),
)
NO_STDIN = Option("--no-stdin", "Do not read stdin, for example in a loop that reads from it.", "flag")
NO_DAEMON = Option("--no-daemon", "Run it in this process, even if a daemon is running.", "flag")
OUTPUT = (
    Option("--json", "Print one JSON object instead of the text.", "flag", name="as_json"),
    Option("--events", "Print every event as a JSON line, then the object that --json prints.", "flag"),
    Option("--quiet", "Print only errors on stderr.", "flag", short="-q"),
)
RUN = (*WHO, *RUNNING, *MESSAGE, *QUEUEING, NO_STDIN, NO_DAEMON, *OUTPUT)


def run_call(args: Sequence[str], env: Mapping[str, str]) -> RunCall | None:
    """``args`` as a call of ``segue run``: the key, the text, the options, and what follows ``--``, for the
    agent's CLI. None if they are another command, or click has to see them."""
    if not args or args[0] != "run" or "_SEGUE_COMPLETE" in env:
        return None
    own, native = split_native(args[1:])
    parsed = _parsed(without_gaps(own))
    if parsed is None:
        return None
    words, options = parsed
    if not 1 <= len(words) <= 2:
        return None
    return words[0], words[1] if len(words) == 2 else None, options, native


def split_native(args: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """What is ours, and what follows ``--``: that belongs to the agent's CLI."""
    own = list(args)
    if "--" not in own:
        return own, ()
    at = own.index("--")
    return own[:at], tuple(own[at + 1 :])


def without_gaps(args: Sequence[str]) -> list[str]:
    """The arguments with a value for every ``--park``: what follows it is one only if it is a duration."""
    own: list[str] = []
    for at, word in enumerate(args):
        alone = word == PARK and not (at + 1 < len(args) and _is_duration(args[at + 1]))
        own.append(f"{PARK}={ANY}" if alone else word)
    return own


def duration_s(text: str) -> float:
    """``90``, ``30m``, ``5h`` or ``2d`` in seconds. Raises ``ValueError``."""
    unit = UNITS.get(text[-1:])
    number = float(text[:-1]) * unit if unit is not None else float(text)
    if not isfinite(number) or not 0 < number <= MOST:
        raise ValueError(text)
    return number


def _is_duration(text: str) -> bool:
    try:
        return duration_s(text) > 0
    except ValueError:
        return False


def _parsed(args: list[str]) -> tuple[list[str], dict[str, Any]] | None:
    """The positional arguments and the options; None if anything is wrong."""
    flags = {flag: each for each in RUN for flag in (each.flag, each.short) if flag}
    options: dict[str, Any] = {each.key: _default(each) for each in RUN}
    words: list[str] = []
    rest = iter(args)
    for word in rest:
        if word == "-" or not word.startswith("-"):
            words.append(word)
            continue
        flag, equals, value = word.partition("=")
        option = flags.get(flag)
        if option is None or (equals and (option.kind == "flag" or flag == option.short)):
            return None
        if option.kind != "flag" and not equals:
            value = next(rest, "")
        try:
            given = converted(option, value)
        except ValueError:
            return None
        options[option.key] = (*options[option.key], given) if option.multiple else given
    return words, options


def _default(option: Option) -> Any:
    if option.multiple:
        return ()
    return False if option.kind == "flag" else None


def converted(option: Option, value: str) -> Any:
    """The value of the option. Raises ``ValueError`` if it is not a valid one."""
    match option.kind:
        case "flag":
            return True
        case "choice":
            if value not in option.choices:
                raise ValueError(value)
            return value
        case "count":
            return _bounded(option, int(value))
        case "amount":
            return _amount(option, value)
        case "budget":
            return value if value == NONE else _amount(option, value)
        case "park":
            return True if value == ANY else duration_s(value)
        case _:
            if not value:
                raise ValueError(value)
            return value


def _amount(option: Option, value: str) -> float:
    number = float(value)
    if not isfinite(number) or number > MOST:
        raise ValueError(value)
    return _bounded(option, number)


def _bounded(option: Option, number: Number) -> Number:
    if number < option.least or (option.above and number == option.least):
        raise ValueError(number)
    return number


def turn_options(given: dict[str, Any], native: tuple[str, ...]) -> Options:
    """The options of a turn, from those of the command line. An empty value is refused."""
    for name, value in given.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise Misuse(f"--{name.replace('_', '-').removesuffix('s')} was given without a value")
    options: Any = dict(given)
    options["save"] = not options.pop("no_save")
    options["native_args"] = native
    if attached := options.pop("attach", ()):
        options["attachments"] = attached
    checked: Options = options
    return checked
