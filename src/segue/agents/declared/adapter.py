"""The adapter of an agent that a user declared in ``config.toml``, made from the declaration.

The command template is filled so that no value is ever read as an option or as two arguments: each element
becomes one argument or none. A value that begins with ``-`` can be a separate argument only after a ``--``;
in ``--option={value}`` it is always safe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segue.agents.base import AgentFacts, Answer, Ended, Evidence, SessionFormat
from segue.agents.declared import output
from segue.agents.declared.output import Output, decoded
from segue.agents.decoding import given_keys
from segue.config.declared import DeclaredAgent, Template, fill_template, placeholders
from segue.core import events as ev
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.outcome import Outcome
from segue.core.request import Capabilities, Command, ModelAddress, Pointing, Request, RunPlace, Runtime
from segue.core.stream import TurnState
from segue.core.verdicts import say

if TYPE_CHECKING:
    from segue.agents.base import SessionArchive


ARGUMENT_BYTES = 131_071
"""The longest argument that Linux accepts."""

Values = Mapping[str, str | None]


def prompt_arguments(name: str, template: Template, values: Values) -> tuple[str, ...]:
    """The arguments after the program. Raises ``Misuse`` for a value that cannot be passed."""
    argv: list[str] = []
    for entry in template:
        filled = fill_template((entry,), values)
        if not filled and isinstance(entry, str):
            _missing(name, entry)
        parts = (entry,) if isinstance(entry, str) else entry
        for part, argument in zip(parts, filled, strict=False):
            _check(name, part, argument, values, guarded="--" in argv)
            argv.append(argument)
    return tuple(argv[1:])


def insert_values(argv: tuple[str, ...], native: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments with the caller's own options, placed before a ``--`` so that they stay options."""
    at = argv.index("--") if "--" in argv else len(argv)
    return (*argv[:at], *native, *argv[at:])


def option_arguments(*templates: Template) -> frozenset[str]:
    """The options that the templates use themselves."""
    parts = (p for t in templates for entry in t for p in ((entry,) if isinstance(entry, str) else entry))
    return frozenset(p.partition("=")[0] for p in parts if p.startswith("-") and p not in ("-", "--"))


def _missing(name: str, entry: str) -> None:
    wanted = sorted(placeholders((entry,)))[0]
    optional = f'["--option", "{{{wanted}}}"]'
    raise Misuse(
        f"{name} needs a {wanted.replace('_', ' ')}, and none was given;"
        f" if it is optional, put the arguments in brackets in its declaration: {optional}"
    )


def _check(name: str, part: str, argument: str, values: Values, *, guarded: bool) -> None:
    if part == argument and not placeholders((part,)):
        return
    used = sorted(placeholders((part,)), key=lambda placeholder: placeholder != "prompt")[0]
    if "\0" in argument:
        raise Misuse(f"the {used} contains a NUL character, which a command line cannot contain")
    if part.startswith("{") and argument.startswith("-") and not guarded:
        raise Misuse(
            f'the {used} begins with "-", so {name} would read it as an option; declare'
            f' "--option={{{used}}}", or "--" before "{{{used}}}"' + _by_stdin(used)
        )
    size = len(argument.encode("utf-8", "surrogateescape"))
    if size > ARGUMENT_BYTES:
        raise Misuse(
            f"the {used} is an argument of {size:,} bytes, and a command line accepts at most"
            f" {ARGUMENT_BYTES:,}{_by_stdin(used)}"
        )


def _by_stdin(used: str) -> str:
    return '; declare stdin = "prompt", or use {prompt_file}' if used == "prompt" else ""


TAIL_BYTES = 256 * 1024
DOCUMENT_BYTES = 64 * 1024 * 1024


class Declared:
    """The adapter of one declared agent."""

    format: SessionFormat | None = None

    def __init__(self, name: str, spec: DeclaredAgent) -> None:
        first = spec.command[0]
        self.facts = AgentFacts(
            name=name,
            label=spec.label or name,
            programs=(os.path.expanduser(first if isinstance(first, str) else first[0]),),
            install=spec.install or f"(its declaration, [agents.{name}], does not say how)",
            keys=tuple(spec.keys),
            probes=(tuple(spec.version_args),) if spec.version_args else (),
            owned_args=option_arguments(spec.command, spec.resume_command or ()),
            notes=(
                say(
                    "a declared agent's own settings decide what it can do without asking",
                    "declared.settings",
                ),
            ),
        )
        self._spec = spec
        self._output = Output(spec)

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        keys = given_keys(env, self.facts.keys)
        return Route("key" if keys else "unknown", keys=keys)

    def archive(self) -> SessionArchive | None:
        return None

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        match = re.search(r"\d+(?:\.\d+)+[\w.+-]*", outputs[0]) if outputs else None
        usage = self._spec.usage
        capabilities = Capabilities(
            resume=self._spec.can_resume,
            choose_id=self._spec.chooses_id,
            usage_scope="session" if usage and usage.scope == "session" else "run",
            cost_scope="none"
            if not usage or not usage.cost_usd
            else "session"
            if usage.scope == "session"
            else "run",
            cwd_scope="same",
            stdin="prompt" not in placeholders(self._spec.command),
            prompt_limit=self._spec.prompt_limit,
            denials=False,
        )
        version = match[0] if match else None
        return Runtime(
            agent=self.facts.name,
            distribution=self.facts.name,
            command=command,
            version=version,
            capabilities=capabilities,
        )

    def home_env(self, home: Path) -> dict[str, str]:
        if self._spec.home_env is None:
            name, label = self.facts.name, self.facts.label
            raise Misuse(f"{label} cannot be given a home: declare home_env in [agents.{name}]")
        return {self._spec.home_env: str(home)}

    def default_home(self, env: Mapping[str, str]) -> Path:
        named = env.get(self._spec.home_env) if self._spec.home_env else None
        home = self._spec.default_home
        if home == "~" or home.startswith("~/"):
            home = (env.get("HOME") or ".") + home[1:]
        return Path(named or home)

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        self._can(request)
        template, chosen = self._spec.command, request.start.new_id
        if request.start.mode == "resume" and self._spec.resume_command is not None:
            template, chosen = self._spec.resume_command, request.start.session or ""
        file = place.run_dir / "prompt.txt"
        values = {
            "prompt": request.prompt,
            "prompt_file": str(file),
            "session_id": None if chosen is None else native_id(chosen),
            "model": request.model,
            "cwd": str(request.cwd),
        }
        argv = insert_values(prompt_arguments(self.facts.label, template, values), request.native_args)
        return Command(
            argv=(*runtime.command, *argv),
            cwd=request.cwd,
            stdin=request.prompt.encode() if self._spec.stdin == "prompt" else b"",
            files={file: request.prompt} if "prompt_file" in placeholders(template) else {},
        )

    def parse(self, line: bytes) -> Sequence[ev.Event]:
        return self._output.parse(line)

    def reply(self, event: ev.Question | ev.Permission, answer: Answer) -> bytes:
        raise Misuse(f"{self.facts.label} asks no questions that Segue could answer")

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """The end of stdout, for its errors; all of stdout if it is one document."""
        try:
            with (place.run_dir / "stdout").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                whole = self._spec.output == "json" and size <= DOCUMENT_BYTES
                file.seek(0 if whole else max(0, size - TAIL_BYTES))
                printed = file.read()
        except OSError:
            return {}
        tail = printed[-TAIL_BYTES:].decode("utf-8", "replace")
        return {"tail": tail, "document": decoded(printed) if whole else None}

    def conclude(self, ended: Ended) -> Outcome:
        return output.conclude(ended, self._spec, self._output, self.facts.label)

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        return None

    def _can(self, request: Request) -> None:
        """Raise ``Misuse`` for what a declaration cannot express."""
        mode, label = request.start.mode, self.facts.label
        if mode in ("fork", "branch") or (mode == "resume" and not self._spec.can_resume):
            raise Misuse(f"{label} cannot {mode} a session: its declaration has no command for that")
        if request.model and "model" not in placeholders(self._spec.command):
            raise Misuse(f"{label} does not accept a model: its command has no {{model}}")
        wanted = {
            "--permission": request.permission != "default",
            "--allow-tool": request.allow_tools,
            "--deny-tool": request.deny_tools,
            "--max-turns": request.max_turns is not None,
            "--budget": request.budget_usd is not None,
            "--system-prompt-file": request.system_prompt is not None,
            "--no-save": not request.save,
        }
        for option, given in wanted.items():
            if given:
                raise Misuse(f"{label} is a declared agent and does not support {option}")
        self._fits(request.prompt)

    def _fits(self, prompt: str) -> None:
        size, limit = len(prompt.encode("utf-8", "surrogateescape")), self._spec.prompt_limit
        if limit is not None and size > limit:
            label = self.facts.label
            raise Misuse(f"the prompt has {size} bytes; {label} accepts at most {limit} (prompt_limit)")
