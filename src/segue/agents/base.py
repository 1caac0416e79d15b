"""What an agent adapter provides, in three tiers; each needs the one before it, and only the first is a must.

- ``Agent``: run the CLI, and say what came of a run.
- ``SessionFormat``: continue a session. Loaded with the adapter, so it imports little.
- ``SessionArchive``: list, read, repair and delete sessions. Loaded when somebody asks for it.

``segue.testing`` checks an adapter against all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from segue.core.environment import AgentVariables
from segue.core.events import Event, Permission, Question
from segue.core.forecast import Habits
from segue.core.outcome import Exit, Outcome
from segue.core.request import Command, ModelAddress, Pointing, Request, RunPlace, Runtime, Start
from segue.core.situation import FailingPair
from segue.core.stream import TurnState
from segue.core.transcript import IMAGE_BYTES, Brief, Entry
from segue.core.usage import Totals

HEAD, TAIL = 64 * 1024, 64 * 1024
"""A brief reads no more than these of a file: its beginning and its end."""

Evidence = Mapping[str, Any]


@runtime_checkable
class Agent(Protocol):
    """One coding-agent CLI: data and small functions, all of them pure but ``evidence``."""

    facts: AgentFacts
    format: SessionFormat | None
    """Its session format; None where it is not known: then it is resumed by its id, and never cut."""

    def archive(self) -> SessionArchive | None:
        """Its sessions on disk; None where their format is not known."""
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

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        """Pure: what to start. Raises ``Misuse`` for what this CLI cannot do."""
        ...

    def parse(self, line: bytes) -> Sequence[Event]:
        """Pure: one line of output as events. Never raises; what it does not know becomes ``Unknown``."""
        ...

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        """Pure: the line that answers the event on the CLI's stdin."""
        ...

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """After the end of a run: what only the disk knows (ids, usage, whether the session exists).

        May also tidy up what this very run left behind in its home. What a run did not touch stays as it is.
        """
        ...

    def conclude(self, ended: Ended) -> Outcome:
        """Pure: what happened. Structure first, text second, never what the assistant says."""
        ...

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        """Pure: what makes the CLI, in this home, ask that model and nobody else; None: nobody knows how."""
        ...


@runtime_checkable
class TellsLogin(Protocol):
    """An agent that can tell whether it is logged in without being started."""

    def logged_in(self, home: Path, env: Mapping[str, str]) -> bool | None:
        """From its settings, the names of variables, and which files exist; no secret is read. None: it
        cannot be told."""
        ...


@runtime_checkable
class KeepsLogin(Protocol):
    """An agent that keeps its login outside its home."""

    def login_files(self, home: Path, env: Mapping[str, str]) -> Sequence[Path]:
        """Where it may be. With none of them, it was never started here."""
        ...


class SessionFormat(Protocol):
    """An agent's own session format, as far as a turn needs it: find a session, see where it ends, cut it.

    An **anchor** is an opaque text of at most 200 characters for a place between two turns. It stays valid
    while the session grows, and in every copy that was cut after it. Files may be huge: ``end`` reads no more
    than the end of one.
    """

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """One session by its whole id; None where it is not there.

        With ``cwd``: the file that the CLI would go on with in that directory. Without: wherever in the home
        it lies. What the CLI itself lost of a session during a run may be put back here.
        """
        ...

    def end(self, stored: StoredSession) -> str | None:
        """The anchor at its end; None where that cannot be told (damaged, or of an unknown version)."""
        ...

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        """Make a session that ends at an anchor, or say how the CLI makes it by itself.

        The answer is how to start the CLI on it; None where the anchor is not in the session, or a session
        cannot end there. The original stays as it is. What is written is written whole or not at all.
        """
        ...

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """Whether the newest turn of a session that was started from a cut really came after the anchor."""
        ...

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Before a resume: put right, in place, what the CLI would send wrongly. Anchors stay valid."""
        ...

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """A fingerprint (hash) of who is logged in, from what the CLI's files tell openly; None: unknown.

        It stays the same when a token is refreshed, and when the same user logs out and in again. ``env``:
        the CLI's own, where that says which file counts.
        """
        ...


class SessionArchive(Protocol):
    """The sessions of one agent, for whoever looks after them. Only ``repair`` and ``remove`` write.

    Nothing raises for what is found: what is damaged, unknown, half written or forbidden is reported as such.
    Files may be of any size; only ``read`` goes through all of one. Subclass it to inherit the defaults.
    """

    window_rules: WindowRules

    def stored(self, home: Path) -> Iterator[StoredSession]:
        """All sessions in a home, by names and ``stat`` alone, in any order."""
        ...

    def brief(self, stored: StoredSession) -> Brief:
        """From the file's first and last 64 KB, never more."""
        ...

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        """The records from a place on, oldest first; one that is still being written is left out.

        ``start`` other than 0 is a record's ``next``, and only for sessions that ``appends``.
        """
        ...

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        """The records before a place (a ``start``; None: the end), newest first, read as asked for."""
        ...

    def side(self, stored: StoredSession) -> Sequence[StoredSession]:
        """The transcripts of its subagents, where they are in files of their own."""
        return ()

    def files(self, stored: StoredSession) -> Sequence[Path]:
        """All files that make the session, below its home: what a copy needs to be resumed elsewhere."""
        ...

    def expires_ms(self, stored: StoredSession, brief: Brief) -> int | None:
        """When the CLI's own clean-up will delete it, by the settings in its home; None: never."""
        return None

    def count(self, stored: StoredSession) -> int | None:
        """Its messages, where they can be counted faster than by decoding every record; None: they cannot."""
        return None

    def stamp(self, home: Path) -> str:
        """Changes when a brief changes for a reason outside the session's own files."""
        return ""

    def after(self, anchor: str) -> AfterAnchor:
        """Tells which entries of a session, in the order of ``read``, came after the anchor."""
        return after_named(anchor)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        """Write a session ``new_id`` beside this one that the CLI resumes: nothing torn, no call without its
        result, no empty answer, one chain. The original stays as it is; what is written is written whole or
        not at all. Raises ``Broken`` with the reason where nothing can be saved."""
        ...

    def remove(self, stored: StoredSession) -> None:
        """Delete a session and its entries in the CLI's own indexes; the rest of them stays as it was."""
        ...


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say about an agent once and for all."""

    name: str
    label: str
    """How it is called in sentences: "Claude"."""
    install: str
    """The command that installs it."""
    programs: tuple[str, ...] = ()
    """Names to look for on PATH, in order."""
    builtin: tuple[str, ...] = ()
    """The command of an agent that comes with Segue, instead of ``programs``."""
    rank: int | None = None
    """When no agent is named, the installed one of the lowest rank is taken; None: never this one."""
    keys: tuple[str, ...] = ()
    """API keys in the environment that would override the CLI's own login."""
    variables: AgentVariables = AgentVariables()
    every_start: dict[str, str] = {}
    """Variables that every start of the program gets."""
    probes: tuple[tuple[str, ...], ...] = ()
    """Arguments whose output tells version and capabilities, e.g. ``("--version",), ("--help",)``."""
    owned_args: frozenset[str] = frozenset()
    """Native options that Segue sets itself and therefore refuses from the caller."""
    login_check: tuple[str, ...] = ()
    """Arguments whose exit code says whether the CLI is logged in; none where it cannot say."""
    notes: tuple[str, ...] = ()
    """What a user should know about its permissions and habits; ``segue doctor`` prints them."""
    expands_at: bool = False
    """The CLI takes ``@name`` in a message for a file, and adds its content."""
    habits: Habits = Habits()
    failing_pairs: tuple[FailingPair, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """A reply to a question or a permission request. ``allow`` false: refused, with the reason."""

    allow: bool
    message: str = ""
    answers: dict[str, str] = {}


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Everything ``conclude`` may look at once the process is gone."""

    request: Request
    runtime: Runtime
    reading: TurnState
    exit: Exit
    evidence: Evidence = {}
    base: Totals = Totals()
    """The native session's running totals before this turn."""
    now_ms: int = 0


class StoredSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A native session as the file system shows it, before anybody looked inside."""

    id: str
    home: Path
    file: str
    """The path of its file, or of its directory. Text, because a list has thousands of them."""
    size: int
    changed_ns: int
    appends: bool = True
    """It is one file that only grows: a place in it holds, and what is new comes after what was there."""

    @property
    def path(self) -> Path:
        return Path(self.file)


class CutRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to cut a session, and what the new one is for."""

    anchor: str
    new_id: str
    home: Path
    """Where the new session is to be; the original may lie in another home."""
    request: Request
    runtime: Runtime


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a session: where it starts, where the next one does, and what it holds."""

    start: int
    next: int
    entries: Sequence[Entry]


class WindowRules(msgspec.Struct, frozen=True):
    """How an agent's CLI treats a full window."""

    reserved: int
    """Tokens that it keeps free for the answer."""
    compacts_at: float | None
    """The share of the window at which it compacts by itself; None: it never does."""
    margin: int = 0
    """So many tokens before either of these it compacts already."""
    window: int | None = None
    """Where neither the session nor a turn told one."""
    tried: tuple[str, ...] = ()
    """The versions of the CLI that Segue is tested with, oldest first."""


class RepairOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a repaired copy of a session leaves out, apart from what is broken in it."""

    trim: bool = False
    """Drop tool output and images, keep the dialogue."""
    since: str | None = None
    """The id of an entry (see ``segue.core.transcript``): nothing before it."""
    image_bytes: int = IMAGE_BYTES
    """An image larger than this, in bytes of the file, is replaced by a line that says so."""


class RepairedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A repaired copy: the id to resume it by, its place, and in words what was done."""

    session: str
    path: Path
    done: tuple[str, ...]


class AfterAnchor:
    """Call it with each entry in turn. ``upto`` says which belong to what ends at the anchor."""

    def __init__(self, upto: Callable[[Entry], bool]) -> None:
        self._upto = upto
        self.found = False
        """Whether the anchor is in the session at all."""

    def __call__(self, entry: Entry) -> bool:
        if self._upto(entry):
            self.found = True
            return False
        return self.found


def after_named(anchor: str) -> AfterAnchor:
    """For formats in which an anchor is a record's own id."""
    return AfterAnchor(lambda entry: entry.native == anchor or entry.native.startswith(f"{anchor}/"))


def entries_of(archive: SessionArchive, stored: StoredSession) -> Iterator[Entry]:
    """All entries of a session, oldest first."""
    return (entry for record in archive.read(stored) for entry in record.entries)


def entry_id(start: int, n: int = 0) -> str:
    """The id of the nth entry of the record that starts there."""
    return f"{start}.{n}"


def damaged(start: int, why: str) -> Entry:
    return Entry(id=entry_id(start), kind="damaged", text=why, restored=False)


def unreadable(start: int, error: OSError) -> Record:
    """What stands for a file that cannot be read."""
    return Record(start, start, (damaged(start, f"it cannot be read: {error.strerror or error}"),))
