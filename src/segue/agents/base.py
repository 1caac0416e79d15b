"""The protocol every agent adapter fulfils.

An adapter is data and small pure functions. Only ``evidence`` touches the world: it reads what the CLI
left on disk, and takes away what the CLI left broken there. ``segue.testing`` holds the conformance kit
that checks an adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from segue.core.events import Event, Permission, Question
from segue.core.outcome import Exit, Outcome
from segue.core.reading import Reading
from segue.core.request import Command, Place, Request, Runtime
from segue.core.usage import Totals

Evidence = Mapping[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """A reply to a question or a permission request. ``allow`` false: refused, with the reason."""

    allow: bool
    message: str = ""
    answers: dict[str, str] = {}


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Everything ``conclude`` may look at once the process is gone."""

    request: Request
    runtime: Runtime
    reading: Reading
    exit: Exit
    evidence: Evidence = {}
    base: Totals = Totals()
    """The native session's running totals before this turn."""
    now_ms: int = 0


@runtime_checkable
class Agent(Protocol):
    """One coding-agent CLI."""

    name: str
    label: str
    """How it is called in sentences: "Claude"."""
    programs: Sequence[str]
    """Names to look for on PATH, in order."""
    install: str
    """The command that installs it."""
    keys: Sequence[str]
    """Environment keys that would override the CLI's own login."""
    probes: Sequence[Sequence[str]]
    """Arguments whose output tells version and capabilities, e.g. ``("--version",), ("--help",)``."""
    owned_args: frozenset[str]
    """Native options that Segue sets itself and therefore refuses from the caller."""
    login_check: Sequence[str]
    """Arguments whose exit code says whether the CLI is logged in; none where it cannot say."""
    notes: Sequence[str]
    """What a user should know of its posture; ``segue doctor`` prints them."""

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        """Pure: what the outputs of ``probes``, in their order, say about the program."""
        ...

    def home_env(self, home: Path) -> dict[str, str]:
        """Pure: the variables that make the CLI live in this home."""
        ...

    def default_home(self, env: Mapping[str, str]) -> Path:
        """Pure: where the CLI lives when no account says otherwise."""
        ...

    def command(self, request: Request, runtime: Runtime, place: Place) -> Command:
        """Pure: what to start. Raises ``Misuse`` for what this CLI cannot do."""
        ...

    def parse(self, line: bytes) -> Sequence[Event]:
        """Pure: one line of output as events. Never raises; what it does not know becomes ``Unknown``."""
        ...

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        """Pure: the line that answers the event on the CLI's stdin."""
        ...

    def evidence(self, request: Request, place: Place, home: Path, reading: Reading) -> Evidence:
        """Read, after the end, what only the disk knows (ids, usage, whether the session exists)."""
        ...

    def conclude(self, ended: Ended) -> Outcome:
        """Pure: what happened. Structure first, text second, never what the assistant says."""
        ...
