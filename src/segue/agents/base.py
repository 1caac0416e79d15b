"""The protocol every agent adapter fulfils.

An adapter is data and small pure functions. Only ``evidence`` touches the world: it reads what the CLI
left on disk, and takes away what the CLI left broken there. ``segue.testing`` holds the conformance kit
that checks an adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from segue.core.events import Event, Permission, Question
from segue.core.outcome import Exit, Outcome
from segue.core.reading import Reading
from segue.core.request import Command, Place, Request, Runtime, Start
from segue.core.transcript import IMAGE_BYTES
from segue.core.usage import Totals

if TYPE_CHECKING:
    from segue.agents.behind import Behind
    from segue.agents.reader import Reader, Stored

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


class Found(msgspec.Struct, frozen=True):
    """A native session on disk: its file (or directory), its size, and the anchor at its end."""

    path: Path
    size: int
    end: str | None
    """None: the end cannot be told (damaged, or written by a version nobody knows yet)."""


class Mending(msgspec.Struct, frozen=True, kw_only=True):
    """What a repaired copy of a session shall be without, apart from what is broken in it."""

    trim: bool = False
    """Drop tool output and images, keep the dialogue."""
    since: str | None = None
    """The id of an entry (see ``segue.core.transcript``): nothing before it."""
    image_bytes: int = IMAGE_BYTES
    """An image larger than this, in bytes of the file, is replaced by a line that says so."""


class Mended(msgspec.Struct, frozen=True, kw_only=True):
    """A repaired copy: the id to resume it by, its place, and in words what was done."""

    session: str
    path: Path
    done: tuple[str, ...]


class Sessions(Protocol):
    """An agent's own session format: find it, look at its end, cut it, mend it.

    An **anchor** is an opaque text of at most 200 characters for a place between two turns. It stays valid
    while the session grows, and in every copy that was cut behind it. Files may be huge: ``look`` reads no
    more than the end of one. Nothing here ever changes what it did not write itself, ``mend`` excepted.
    """

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        """The session as it is now; None when its file is not there."""
        ...

    def cut(
        self,
        found: Found,
        session: str,
        anchor: str,
        new_id: str,
        request: Request,
        home: Path,
        runtime: Runtime,
    ) -> Start | None:
        """Make a session ``new_id`` that ends at the anchor, or say how the CLI makes it by itself.

        The answer is how to start the CLI on it; None when the anchor is not in the session. The original
        stays as it is. What is written is written whole or not at all.
        """
        ...

    def continues(self, found: Found, anchor: str) -> bool:
        """Whether the newest turn of a session that was started from a cut really came after the anchor."""
        ...

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """Before a resume: put right what the CLI's own resume would send wrongly. Anchors stay valid."""
        ...

    def behind(self, anchor: str) -> Behind:
        """Tells which entries of a session (as its reader gives them, in order) came after the anchor."""
        ...

    def repair(self, stored: Stored, new_id: str, mending: Mending) -> Mended:
        """Write a session ``new_id`` beside this one that the CLI resumes: nothing torn, no call without its
        result, no empty answer, one chain. The original stays as it is; what is written is written whole or
        not at all. Raises ``Broken`` with the reason where nothing can be saved."""
        ...

    def remove(self, stored: Stored) -> None:
        """Delete a session and what the CLI's own indexes say of it; the rest of them stays as it was."""
        ...

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """A fingerprint (hash) of who is logged in, from what the CLI's files tell openly; None: unknown.

        It stays the same when a token is refreshed, and when the same user logs out and in again. ``env``:
        the CLI's own, where that says which file counts.
        """
        ...


@runtime_checkable
class TellsLogin(Protocol):
    """An agent whose login can be told without starting it."""

    def logged_in(self, home: Path, env: Mapping[str, str]) -> bool | None:
        """From its settings, the names of variables, and which files are there; no secret is read. None: it
        cannot be told."""
        ...


@runtime_checkable
class KeepsLogin(Protocol):
    """An agent that keeps its login elsewhere than in its home."""

    def login_files(self, home: Path, env: Mapping[str, str]) -> Sequence[Path]:
        """Where it may stand. With none of them, it was never started here."""
        ...


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

    sessions: Sessions | None
    """Its session format; None where nobody knows it: then it is resumed by its id, and never cut."""

    def reader(self) -> Reader | None:
        """How its sessions are read where they lie; None where nobody knows their format."""
        ...

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
