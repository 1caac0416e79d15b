"""What is asked of an agent, what its program can do, and the command that results.

What an agent may do and spend in a turn: as granted to a voice, and as it applied in the turn. Values only.

Native arguments: what a caller passes on to the CLI, except what Segue sets itself.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from segue.core.errors import Misuse
from segue.core.tools import Tools

if TYPE_CHECKING:
    from segue.core.verdicts import Said

Posture = Literal["default", "read", "edit", "full"]
"""What the agent may do without asking.

``default``: what its own settings allow when no user can be asked, but only reading if the CLI would grant
itself more; ``read``: only look, and what is allowed by name, whatever its settings allow; ``edit``: also
change files in the working directory; ``full``: everything, without a sandbox. Only the caller chooses it.
"""

Unit = Literal["bytes", "characters"]
"""The unit of a CLI's prompt limit."""


Questions = Literal["auto", "on", "off"]
"""Whether the agent may ask the user; ``auto``: if somebody can answer when its session begins."""


class Start(msgspec.Struct, frozen=True):
    """Where the native session starts: the ``mode``, the session it comes from and the id it gets."""

    mode: Literal["fresh", "resume", "fork", "branch"] = "fresh"
    session: str | None = None
    """The native session to continue (all modes except ``fresh``)."""
    at: str | None = None
    """The anchor to cut at (``branch``)."""
    new_id: str | None = None
    """The id the new session should get, if the CLI lets us choose."""


IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
PDF, TEXT = "application/pdf", "text/plain"


class AttachedFile(msgspec.Struct, frozen=True):
    """A file that goes with the prompt. ``path``: a copy for this attempt, named as its type demands."""

    path: Path
    name: str
    media_type: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, in terms that every adapter understands."""

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
    """Offer the tool that asks the user. Tools are part of every prompt, so a session keeps this setting."""
    save: bool = True
    """False: leave no native session behind, if the CLI can do that."""
    native_args: tuple[str, ...] = ()
    """Passed to the CLI unchanged; those that Segue owns were refused before."""
    attachments: tuple[AttachedFile, ...] = ()
    """Only of the types that the CLI takes."""
    schema: str | None = None
    """A JSON schema: the answer ends with a value of it. Only if the CLI can do that."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What one version of one CLI can do: read from its help, corrected by the adapter's version table."""

    resume: bool = False
    fork: bool = False
    branch: bool = False
    """The CLI itself can continue from a message in the middle of a session."""
    choose_id: bool = False
    no_save: bool = False
    questions: bool = False
    """Can ask the user a question while it runs, and take the answer."""
    system_prompt: Literal["none", "run", "session"] = "none"
    """Whether a system prompt can be given, for this run only or so that it stays with the session."""
    usage_scope: Literal["run", "session"] = "run"
    cost_scope: Literal["none", "run", "session"] = "none"
    cwd_scope: Literal["any", "same"] = "any"
    """Whether a session can be resumed from another working directory."""
    stdin: bool = True
    """Takes the prompt on stdin or from a file; otherwise on the command line."""
    prompt_limit: int | None = None
    prompt_unit: Unit = "bytes"
    max_turns: bool = False
    budget: bool = False
    schema: bool = False
    """Makes the model answer with a value of a JSON schema."""
    allow_tools: bool = False
    deny_tools: bool = False
    deny_with_full: bool = True
    """Tools can be denied even if everything else is allowed."""
    tools: Tools | None = None
    """The tool names it accepts in both lists; None: unknown, so any name is passed on."""
    postures: tuple[Posture, ...] = ("default",)
    unable_to_read: tuple[str, ...] = ()
    """The options that its CLI lacks to keep to the posture ``read`` whatever its settings allow."""
    replays: bool = False
    """A resumed run prints the whole history again before what is new."""
    compacts: bool = False
    """Replaces its history with a summary by itself when the window fills up."""
    denials: bool = True
    """Reports which tool calls were refused."""
    id_on_disk_only: bool = False
    """The session's id is not in the output: runs need a private home, so that two never share one."""
    attachments: tuple[str, ...] = ()
    """The media types of files that it takes with a message, when it starts and when it resumes."""
    keeps_attachments: bool = True
    """A resumed session still shows the model the files of earlier messages."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A program found on this machine. An update changes ``version``, never the ``identity``."""

    agent: str
    distribution: str
    command: tuple[str, ...]
    version: str | None
    capabilities: Capabilities
    ours: bool = False
    """It is part of Segue: the interpreter that runs it is not part of its identity."""

    @property
    def identity(self) -> str:
        resume = "" if self.capabilities.resume else " (cannot resume)"
        return self.distribution + ("" if self.ours else f" ({' '.join(self.command)})") + resume


class RunPlace(msgspec.Struct, frozen=True):
    """Where an attempt runs: its own directory, and the home of its account (None: the CLI's own)."""

    run_dir: Path
    home: Path | None = None
    started_ms: int = 0


class Inherited(msgspec.Struct, frozen=True):
    """What a process has from its caller besides directory and environment, if another process starts it."""

    umask: int
    limits: dict[str, tuple[int, int]] = {}
    """Soft and hard limits by their names, such as ``RLIMIT_NOFILE``."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. ``files`` are written first; with ``hold_stdin``, ``stdin`` stays open until the end."""

    argv: tuple[str, ...]
    cwd: Path
    stdin: bytes = b""
    hold_stdin: bool = False
    env: dict[str, str] = {}
    inherited: Inherited | None = None
    """None: what it has from the process that starts it."""
    files: dict[Path, str] = {}
    secrets: tuple[str, ...] = ()
    """Values in the files that no output may show."""
    notices: "tuple[Said, ...]" = ()
    """What the user should know about how this CLI takes the request."""
    offers: tuple[str, ...] = ()
    """In words: everything in the request that changes the tools that the model is shown. As long as it
    stays the same, the prompt of a resumed session begins as before, and a cache can serve it."""


class ModelAddress(msgspec.Struct, frozen=True):
    """A model that an agent is pointed at for a rehearsal."""

    url: str
    key: str
    """The key is valid for this model only."""
    retries: int | None = None
    """How often a failed request is retried; None: as often as the CLI does by default."""
    scenario: Path | None = None
    """For an agent that uses no model: the scenario that it plays instead."""


class Pointing(msgspec.Struct, frozen=True, kw_only=True):
    """What points an agent at a model: variables, and files by path under its home."""

    env: dict[str, str]
    files: dict[Path, str] = {}
    fence: dict[str, str] = {}
    """Variables that take precedence over a project's own files (settings, ``.env``)."""
    asks_model: bool = True
    """False: the agent needs no model, so there are no requests to look at."""


class FlowPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which step of which flow a turn belongs to."""

    flow: str
    step: str
    tier: int | None = None
    """The tier of a chain in which each tier may do more than the one before."""
    parent: str | None = None
    """The run that it comes from, if it begins a native session."""
    came_by: Literal["escalation", "review"] = "escalation"
    """How it comes from that run."""
    variables: dict[str, str] = {}
    """What the agent's environment has in addition."""
    budget: float | None = None
    """What the flow may cost, in dollars. None: what is configured for all flows."""
    tier_budget: float | None = None
    """What its tier may cost."""


class Briefing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a role of a flow is continued: in its own session, or with the whole prompt in a new one. What was
    said before is never sent again as text."""

    full: str
    """The whole prompt. It takes the place of the message if no session can be continued."""
    objective: str = ""
    """What it is all about, in one line."""
    schema: str = ""
    """The JSON schema of what the answer ends with, for agents whose CLI can ask for that."""
    fork_of: str = ""
    """A role of the same agent: if this one has no session yet, it begins with a fork of that role's."""
    ttl_minutes: int = 0
    """A session that was last used longer ago is not continued. 0: no limit."""
    on_model_change: Literal["resume", "replay"] = "resume"
    """Whether a session is continued with another model."""
    asked_ms: int = 0
    """When the flow wanted the turn for the first time, as if it had not waited since the role's last answer:
    the time in which it was parked or suspended does not count."""


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a voice was allowed to do; it applies to its later turns. What was never set is left out."""

    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    budget_usd: float | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions and limits of a turn, wherever they came from."""

    permission: Posture = "default"
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    questions: bool | None = None
    """Whether the agent may ask the user; None: it cannot."""
    remembered: tuple[str, ...] = ()
    """Which of these were remembered from an earlier turn of the same agent in the same role."""


SHORTEST = 4
"""Some CLIs accept abbreviated options; with fewer characters (``--x``) it is not an abbreviation."""


def refuse_owned(label: str, owned: frozenset[str], arguments: Iterable[str]) -> None:
    """Raise ``Misuse`` for an option that Segue sets, however it is written: ``--a=b``, ``-ab``,
    ``--camelCase``, abbreviated."""
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
    """The letters of short options written together; an option followed by a value counts as one letter."""
    return argument[1:2] if "=" in argument or not argument[1:].isalpha() else argument[1:]
