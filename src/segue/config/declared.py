"""What ``[agents.<name>]`` declares about an agent that Segue does not know: how to call it, how to read it.

    [agents.mytool]
    command = ["mytool", "run", "--json", ["--model", "{model}"]]
    resume_command = ["mytool", "resume", "{session_id}", "--json"]
    stdin = "prompt"
    output = "jsonl"
    session_id = { path = "$.session", when = { type = "init" } }
    text = { path = "$.message.text", when = { type = "message", role = "assistant" } }

A command is a list of arguments with placeholders. Arguments in inner brackets belong together and are left
out if a placeholder among them has no value, so that a flag is never passed without its value. Instead of one
``Where``, the file can have a list of them; here they are always lists.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from segue.core.environment import OURS
from segue.core.json_values import Scalar, path_steps
from segue.core.outcome import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


Placeholder = Literal["prompt", "prompt_file", "session_id", "model", "cwd"]
Template = tuple[str | tuple[str, ...], ...]

PLACEHOLDERS: tuple[str, ...] = get_args(Placeholder)
_PLACEHOLDER = r"\{(" + "|".join(PLACEHOLDERS) + r")\}"
_ANY_PLACEHOLDER = r"\{([a-z_]+)\}"


def placeholders(template: Template) -> frozenset[str]:
    """The placeholders a template uses."""
    return frozenset(name for entry in template for part in _parts(entry) for name in _names(part))


def fill_template(template: Template, values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The arguments, without the entries that have a placeholder without a value."""
    argv: list[str] = []
    for entry in template:
        parts = _parts(entry)
        if all(values.get(name) is not None for part in parts for name in _names(part)):
            argv.extend(re.sub(_PLACEHOLDER, lambda m: values[m[1]] or "", part) for part in parts)
    return tuple(argv)


def check_template(key: str, template: Template) -> None:
    """Raise ``ValueError`` for a template that cannot be started."""
    first = _parts(template[0]) if template else ()
    if not first or not first[0]:
        raise ValueError(f"{key} is empty")
    if _names(first[0]):
        raise ValueError(f"{key} must begin with a program, not with a placeholder")
    for name in (
        n for entry in template for part in _parts(entry) for n in re.findall(_ANY_PLACEHOLDER, part)
    ):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{p}}}" for p in PLACEHOLDERS)
            raise ValueError(f"{key} has the unknown placeholder {{{name}}}; known: {known}")


def _parts(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else entry


def _names(part: str) -> list[str]:
    return re.findall(_PLACEHOLDER, part)


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to find a value in the output.

    ``path`` (a JSON path) is looked up in the JSON records that match ``when``; ``pattern`` (a regular
    expression: its first group, else the whole match) is searched in each line of text. With neither, the
    value is everything that was printed.
    """

    path: str | None = None
    when: dict[str, Scalar] = {}
    """Paths and the values they must have."""
    pattern: str | None = None
    stream: Literal["stdout", "stderr"] = "stdout"
    delta: bool = False
    """A fragment: the pieces are joined. Otherwise the last value counts."""

    def __post_init__(self) -> None:
        if self.path is not None and self.pattern is not None:
            raise ValueError("takes path or pattern, not both")
        if self.path is None and self.when:
            raise ValueError("has when but no path")
        if self.path is not None and self.stream == "stderr":
            raise ValueError("takes a path for stdout only; use a pattern for stderr")
        for path in (self.path or "$", *self.when):
            path_steps(path)
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f'has the pattern "{self.pattern}", which is not valid: {error}') from None


class WhereError(Where, frozen=True, forbid_unknown_fields=True):
    """Where to find an error message, and the kind of failure that it means (none: ``crashed``)."""

    kind: Kind | None = None


class WhereUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON paths of the counters, in the records that match ``when``."""

    input: str | None = None
    cache_read: str | None = None
    cache_write: str | None = None
    output: str | None = None
    cost_usd: str | None = None
    when: dict[str, Scalar] = {}
    scope: Literal["run", "session", "request"] = "run"
    """Counted over this run, over the whole session, or once per model request (then summed)."""
    cache_in_input: bool = False
    """The CLI's input count includes what the cache served."""

    def __post_init__(self) -> None:
        for path in (self.input, self.cache_read, self.cache_write, self.output, self.cost_usd, *self.when):
            path_steps(path or "$")


def refuse_ours(name: str) -> None:
    """Raise ``ValueError`` if a variable that an agent is to get is one of Segue's own."""
    if name.startswith(OURS):
        raise ValueError(f'has "{name}": agents get no variable of Segue\'s own; remove it')


class DeclaredAgent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One declared agent."""

    command: Template
    """Starts a new session. If it contains ``{session_id}``, Segue chooses the id: a uuid."""
    resume_command: Template | None = None
    resume: Literal["auto", "never"] = "auto"
    """``never``: its resume cannot be controlled, so it is not used."""
    stdin: Literal["prompt", "none"] = "none"
    output: Literal["jsonl", "json", "text"] = "text"
    session_id: tuple[Where, ...] = ()
    text: tuple[Where, ...] = (Where(),)
    error: tuple[WhereError, ...] = ()
    tool: tuple[Where, ...] = ()
    """Where to find a tool's name when it is called. None: whether tools ran is not known."""
    usage: WhereUsage | None = None
    done: dict[str, Scalar] = {}
    """The values in the record that ends a successful turn (none: exit code 0 means success)."""
    label: str | None = None
    install: str = ""
    version_args: tuple[str, ...] = ()
    """The arguments that print its version. None: it is not asked, because a script might do anything."""
    keys: tuple[str, ...] = ()
    """API keys that would override its own login: withheld unless an account passes them."""
    home_env: str | None = None
    """The variable for its home; it is set to the account's ``home``."""
    default_home: str = "~"
    prompt_limit: int | None = None
    """In bytes."""

    def __post_init__(self) -> None:
        self._check_commands()
        if self.home_env is not None:
            refuse_ours(self.home_env)
        places = (*self.session_id, *self.text, *self.error, *self.tool)
        reads_json = self.usage or self.done or any(where.path for where in places)
        if self.output == "text" and reads_json:
            raise ValueError('has JSON paths, but output = "text"; set output to "jsonl" or "json"')
        if self.output != "text" and not all(w.path or w.pattern for w in self.text):
            raise ValueError(f'has output = "{self.output}" but does not say where the text is')
        for key, named in (("session_id", self.session_id), ("error", self.error), ("tool", self.tool)):
            if not all(w.path or w.pattern for w in named):
                raise ValueError(f"{key} needs a path or a pattern")
        if any(where.stream == "stderr" or where.delta for where in self.tool):
            raise ValueError("tool is searched for in stdout, call by call: it takes no stream and no delta")
        for path in self.done:
            path_steps(path)

    @property
    def can_resume(self) -> bool:
        return self.resume == "auto" and self.resume_command is not None

    @property
    def chooses_id(self) -> bool:
        return "session_id" in placeholders(self.command)

    def _check_commands(self) -> None:
        self._check_command("command", self.command)
        if self.resume_command is None:
            return
        self._check_command("resume_command", self.resume_command)
        if "session_id" not in placeholders(self.resume_command):
            raise ValueError("resume_command needs {session_id}")
        if not self.session_id and not self.chooses_id:
            raise ValueError("has resume_command but no session_id that says where to find the id")

    def _check_command(self, key: str, command: Template) -> None:
        check_template(key, command)
        ways = len({"prompt", "prompt_file"} & placeholders(command)) + (self.stdin == "prompt")
        if ways != 1:
            problem = "does not get the prompt" if ways == 0 else "gets the prompt twice"
            raise ValueError(f'{key} {problem}: use {{prompt}}, {{prompt_file}} or stdin = "prompt"')
