"""What is asked of an agent, what its program can do, and the command that results.

What an agent may do and spend in a turn: as it was said to a voice, and as it was in the end. Values.

Native arguments: what a caller passes on to the CLI, less what Segue sets itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from segue.core.errors import Misuse
from segue.core.tools import Tools

Posture = Literal["default", "read", "edit", "full"]
"""What the agent may do unasked.

``default``: what its own settings allow when nobody can be asked, and never more than reading where
the CLI would otherwise grant itself more; ``read``: look, do not touch; ``edit``: also change files in
the working directory; ``full``: everything, without a sandbox. Only ever chosen by the caller.
"""

Unit = Literal["bytes", "characters"]
"""What a CLI counts a prompt by."""


Questions = Literal["auto", "on", "off"]
"""Whether the agent may ask the user; ``auto``: where somebody can answer when its session begins."""


class Start(msgspec.Struct, frozen=True):
    """Where the native session begins: ``mode`` with the session it comes from and the id it gets."""

    mode: Literal["fresh", "resume", "fork", "branch"] = "fresh"
    session: str | None = None
    """The native session to go on from (all but ``fresh``)."""
    at: str | None = None
    """The anchor to cut at (``branch``)."""
    new_id: str | None = None
    """The id the new session should get, where the CLI lets us choose."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, in words every adapter understands."""

    prompt: str
    cwd: Path
    start: Start = Start()
    model: str | None = None
    permission: Posture = "default"
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    system_prompt: str | None = None
    questions: bool = True
    """Offer the tool by which the agent asks the user; it stands in every prompt, so a session keeps it."""
    save: bool = True
    """False: leave no native session behind, where the CLI can do that."""
    native_args: tuple[str, ...] = ()
    """Passed to the CLI as they are; those that Segue owns were refused before."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What one version of one CLI can do: read from its help, corrected by the adapter's version table."""

    resume: bool = False
    fork: bool = False
    branch: bool = False
    """Can go on from a message in the middle of a session by itself."""
    choose_id: bool = False
    no_save: bool = False
    questions: bool = False
    """Can put a question to the user while it runs, and take the answer."""
    system_prompt: Literal["none", "run", "session"] = "none"
    """Whether a system prompt can be given, for this run only or so that it stays with the session."""
    usage_scope: Literal["run", "session"] = "run"
    cost_scope: Literal["none", "run", "session"] = "none"
    cwd_scope: Literal["any", "same"] = "any"
    """Whether a session can be resumed from another working directory."""
    stdin: bool = True
    """Takes the prompt on stdin or from a file; otherwise it stands on the command line."""
    prompt_limit: int | None = None
    prompt_unit: Unit = "bytes"
    max_turns: bool = False
    budget: bool = False
    allow_tools: bool = False
    deny_tools: bool = False
    deny_with_full: bool = True
    """Tools can be denied also where everything else is allowed."""
    tools: Tools | None = None
    """The names it takes in both lists; None: not known, so that any name is passed on."""
    postures: tuple[Posture, ...] = ("default",)
    replays: bool = False
    """A resumed run prints the whole history again before what is new."""
    compacts: bool = False
    """Replaces its history by a summary by itself when the window fills up."""
    denials: bool = True
    """Tells which calls of tools were refused."""
    id_on_disk_only: bool = False
    """The session's id is not in the output: runs need a private home, so that two never meet."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A program found on this machine. An update changes ``version``, never the ``identity``."""

    agent: str
    distribution: str
    command: tuple[str, ...]
    version: str | None
    capabilities: Capabilities
    ours: bool = False
    """It comes with Segue: by which interpreter it is started says nothing about it."""

    @property
    def identity(self) -> str:
        resume = "" if self.capabilities.resume else " (cannot resume)"
        return self.distribution + ("" if self.ours else f" ({' '.join(self.command)})") + resume


class RunPlace(msgspec.Struct, frozen=True):
    """Where an attempt lives: its own directory, and the home its account uses (None: the CLI's own)."""

    run_dir: Path
    home: Path | None = None
    started_ms: int = 0


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. ``files`` are written before; ``stdin`` stays open until the end if ``hold_stdin``."""

    argv: tuple[str, ...]
    cwd: Path
    stdin: bytes = b""
    hold_stdin: bool = False
    env: dict[str, str] = {}
    files: dict[Path, str] = {}
    offers: tuple[str, ...] = ()
    """In words: whatever in the request changes the set of tools that the model is shown. As long as it
    stays the same, the prompt of a resumed session begins as before, and a cache can serve it."""


class ModelAddress(msgspec.Struct, frozen=True):
    """A model that an agent is pointed at for a rehearsal."""

    url: str
    key: str
    """Opens this model and nothing else."""
    retries: int | None = None
    """How often a failed request is tried again; None: as often as the CLI does by itself."""
    scenario: Path | None = None
    """For an agent that asks no model: what it plays instead."""


class Pointing(msgspec.Struct, frozen=True, kw_only=True):
    """What points an agent at a model: variables, and files by their path under its home."""

    env: dict[str, str]
    files: dict[Path, str] = {}
    fence: dict[str, str] = {}
    """Variables that keep a project's own files (settings, ``.env``) from leading away: they win."""
    asks_model: bool = True
    """False: the agent needs no model, so that nothing can be learnt from what it would ask."""


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a voice was told it may do; its later turns go by it. What nobody said is left out."""

    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    budget_usd: float | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What held in a turn, wherever it came from."""

    permission: Posture = "default"
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    questions: bool | None = None
    """Whether the agent may ask the user; None: it cannot."""
    remembered: tuple[str, ...] = ()
    """Which of these were not said anew, but before, to the same agent in the same role."""


SHORTEST = 4
"""Some CLIs take abbreviated options; fewer characters than these (``--x``) abbreviate nothing."""


def refuse_owned(label: str, owned: frozenset[str], arguments: Iterable[str]) -> None:
    """``Misuse`` for what is ours, however it is written: ``--a=b``, ``-ab``, ``--camelCase``, cut short."""
    for argument in arguments:
        found = _owned(argument, owned)
        if found is not None:
            raise Misuse(f"{found} is set by Segue and cannot be passed to {label}")


def _owned(argument: str, owned: frozenset[str]) -> str | None:
    if not argument.startswith("-"):
        return argument if argument in owned else None
    if not argument.startswith("--"):
        return next((f"-{letter}" for letter in _letters(argument) if f"-{letter}" in owned), None)
    name = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: "-" + found[0].lower(), argument.split("=", 1)[0])
    if argument.split("=", 1)[0] in owned or name in owned:
        return name
    if len(name) < SHORTEST:
        return None
    return next((option for option in sorted(owned) if option.startswith(name)), None)


def _letters(argument: str) -> str:
    """Short options written together; what follows the first that takes a value is not looked at closely."""
    return argument[1:2] if "=" in argument or not argument[1:].isalpha() else argument[1:]
