"""What an agent adapter provides, in three tiers. Each needs the one before it; only the first is required.

- ``Agent``: run the CLI and interpret the run.
- ``SessionFormat``: continue a session. Loaded with the adapter, so it imports little.
- ``SessionArchive``: list, read, repair and delete sessions. Loaded only when needed.

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
from segue.core.turn import Clause
from segue.core.usage import Totals
from segue.core.verdicts import Said

HEAD, TAIL = 64 * 1024, 64 * 1024
"""How much a brief reads of a file: this many bytes of its beginning and of its end."""

Evidence = Mapping[str, Any]


@runtime_checkable
class Agent(Protocol):
    """One coding-agent CLI: data and small functions, all pure except ``evidence``."""

    facts: AgentFacts
    format: SessionFormat | None
    """Its session format; None if it is unknown: then a session is resumed by its id and never cut."""

    def archive(self) -> SessionArchive | None:
        """Its sessions on disk; None if their format is unknown."""

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        """Pure: what the outputs of ``probes``, in their order, say about the program."""

    def home_env(self, home: Path) -> dict[str, str]:
        """Pure: the variables that make the CLI use this home."""

    def default_home(self, env: Mapping[str, str]) -> Path:
        """Pure: the CLI's home if no account names another."""

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        """Pure, except that it can read the request's attachments, which never change, and settings files in
        the home and the directory: what to start. Raises ``Misuse`` if this CLI cannot do what is
        requested."""

    def parse(self, line: bytes) -> Sequence[Event]:
        """Pure: one line of output as events. Never raises; what it does not know becomes ``Unknown``."""

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        """Pure: the line that answers the event on the CLI's stdin."""

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """What only the disk knows after a run: ids, usage, whether the session exists.

        Can also clean up what this run left behind in its home, and nothing else.
        """

    def conclude(self, ended: Ended) -> Outcome:
        """Pure: what happened. Judged by structure first, then by text, never by what the assistant says."""

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        """Pure: what makes the CLI, in this home, use that model and no other; None if there is no way."""


@runtime_checkable
class TellsLogin(Protocol):
    """An agent whose login can be checked without starting it."""

    def logged_in(self, home: Path, env: Mapping[str, str]) -> bool | None:
        """Judged by settings, names of variables and existing files; reads no secret. None: unknown."""


@runtime_checkable
class KeepsLogin(Protocol):
    """An agent that keeps its login outside its home."""

    def login_files(self, home: Path, env: Mapping[str, str]) -> Sequence[Path]:
        """Where it can be. If none of them exists, the CLI was never started here."""


@runtime_checkable
class Enforces(Protocol):
    """An agent that knows when its CLI would not keep to the permissions that are shown."""

    def not_in_force(
        self, request: Request, runtime: Runtime, home: Path, env: Mapping[str, str]
    ) -> str | None:
        """Why the request's permission and tool lists would not be in force with this version of the CLI and
        these settings files, in one line that names the file and the way out; None: they are. Reads settings
        files, starts nothing. ``env``: the CLI's environment."""


class SessionFormat(Protocol):
    """What a turn needs from an agent's session format: find a session, see where it ends, cut it.

    An **anchor** is an opaque text of at most 200 characters for a place between two turns. It stays valid
    while the session grows, and in every copy that was cut after it. Files can be huge: ``end`` reads only
    the end of one.
    """

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """One session by its full id; None if it does not exist.

        With ``cwd``: the file that the CLI would continue in that directory. Without: any file in the home.
        Can also restore what the CLI itself lost of a session during a run.
        """

    def end(self, stored: StoredSession) -> str | None:
        """The anchor at its end; None if it cannot be determined (damaged, or of an unknown version)."""

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        """Make a session that ends at an anchor, or have the CLI make it. Return how to start the CLI on it.

        None if the anchor is not in the session, or a session cannot end there. The original is not changed.
        The new session is written completely or not at all.
        """

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """Whether the newest turn of a session that was started from a cut really came after the anchor."""

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Before a resume: correct, in place, what the CLI would send wrongly. Anchors stay valid."""

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        """A fingerprint (hash) of who is logged in, from what the CLI's files show openly; None: unknown;
        ``UNREADABLE`` (``core.view``): the file is broken, perhaps because it is just being written.

        It stays the same when a token is refreshed, and when the same user logs out and in again. ``env``:
        the CLI's environment, which can name the file to read.
        """


class SessionArchive(Protocol):
    """The sessions of one agent, to list and maintain them. Only ``repair`` and ``remove`` write.

    Reading never raises: what is damaged, unknown, half written or forbidden is reported as such. Files can
    have any size; only ``read`` goes through a whole one. Subclass it to inherit the defaults.
    """

    window_rules: WindowRules

    def stored(self, home: Path) -> Iterator[StoredSession]:
        """All sessions in a home, in any order. Uses only names and ``stat``."""

    def brief(self, stored: StoredSession) -> Brief:
        """A summary from the file's first and last 64 KB, never more."""

    def read(self, stored: StoredSession, start: int = 0) -> Iterator[Record]:
        """The records from a place on, oldest first, without one that is still being written.

        ``start`` other than 0 is a record's ``next``, and only for sessions that ``appends``.
        """

    def back(self, stored: StoredSession, end: int | None = None) -> Iterator[Record]:
        """The records before a place (a ``start``; None: the end), newest first, read lazily."""

    def side(self, stored: StoredSession) -> Sequence[StoredSession]:
        """The transcripts of its subagents, if they are in separate files."""
        return ()

    def files(self, stored: StoredSession) -> Sequence[Path]:
        """All files of the session, below its home: what a copy needs to be resumed elsewhere."""

    def expires_ms(self, stored: StoredSession, brief: Brief) -> int | None:
        """When the CLI's own clean-up will delete it, by the settings in its home; None: never."""
        return None

    def count(self, stored: StoredSession) -> int | None:
        """The number of messages, if that is faster to find than by decoding every record; else None."""
        return None

    def stamp(self, home: Path) -> str:
        """Changes when a brief changes for a reason outside the session's own files."""
        return ""

    def after(self, anchor: str) -> AfterAnchor:
        """Decides which entries of a session, in the order of ``read``, came after the anchor."""
        return after_named(anchor)

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        """Write a session ``new_id`` beside this one that the CLI can resume: nothing torn, no call without
        its result, no empty answer, one chain. The original is not changed; the copy is written completely or
        not at all. Raises ``Broken`` with the reason if nothing can be saved."""

    def remove(self, stored: StoredSession) -> None:
        """Delete a session and its entries in the CLI's own indexes; nothing else in them changes."""


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What never changes about an agent."""

    name: str
    label: str
    """Its name in sentences: "Claude"."""
    install: str
    """The command that installs it."""
    programs: tuple[str, ...] = ()
    """Names to look for on PATH, in order."""
    builtin: tuple[str, ...] = ()
    """The command of an agent that comes with Segue, instead of ``programs``."""
    rank: int | None = None
    """If no agent is named, the installed one with the lowest rank is used; None: never this one."""
    keys: tuple[str, ...] = ()
    """Variables with API keys that would override the CLI's own login."""
    variables: AgentVariables = AgentVariables()
    every_start: dict[str, str] = {}
    """Variables that every start of the program gets."""
    probes: tuple[tuple[str, ...], ...] = ()
    """Arguments whose output shows version and capabilities, e.g. ``("--version",), ("--help",)``."""
    resume_args: tuple[str, ...] = ()
    """Arguments that open a session in a terminal, with ``{session}`` for its id; empty: it cannot."""
    owned_args: frozenset[str] = frozenset()
    """Native options that Segue sets itself and therefore refuses from the caller."""
    login_check: tuple[str, ...] = ()
    """Arguments whose exit code says whether the CLI is logged in; empty if there are none."""
    login_args: tuple[str, ...] = ()
    """Arguments that log in, in a terminal; empty if there are none."""
    login_hint: str = ""
    """How to log in if there are none."""
    notes: tuple[str | Said, ...] = ()
    """What a user should know about its permissions and habits; ``segue doctor`` prints it."""
    expands_at: bool = False
    """The CLI reads ``@name`` in a message as a file name, and adds the file's content."""
    attachments: tuple[str, ...] = ()
    """The media types of files that its newest version takes with a message."""
    habits: Habits = Habits()
    failing_pairs: tuple[FailingPair, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """A reply to a question or a permission request. If ``allow`` is false, ``message`` is the reason."""

    allow: bool
    message: str = ""
    answers: dict[str, str] = {}
    always: bool = False
    """The tool is allowed from now on, in this conversation."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ``conclude`` can use after the process has ended."""

    request: Request
    runtime: Runtime
    reading: TurnState
    exit: Exit
    evidence: Evidence = {}
    base: Totals = Totals()
    """The native session's running totals before this turn."""
    now_ms: int = 0


class StoredSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A native session as the file system shows it, without its contents."""

    id: str
    home: Path
    file: str
    """The path of its file or directory. A string, because a list has thousands of them."""
    size: int
    changed_ns: int
    appends: bool = True
    """It is one file that only grows: places in it stay valid, and new records come after the old ones."""

    @property
    def path(self) -> Path:
        return Path(self.file)


class CutRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to cut a session, and what the new one is for."""

    anchor: str
    new_id: str
    home: Path
    """The home of the new session; the original can be in another one."""
    request: Request
    runtime: Runtime


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a session: where it starts, where the next one starts, and what it contains."""

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
    """It compacts this many tokens before either limit."""
    window: int | None = None
    """The size to assume if neither the session nor a turn shows one."""
    tried: tuple[str, ...] = ()
    """The versions of the CLI that Segue is tested with, oldest first."""


class RepairOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a repaired copy of a session leaves out, besides what is broken."""

    trim: bool = False
    """Drop tool output and images, keep the dialogue."""
    since: str | None = None
    """The id of an entry (see ``segue.core.transcript``): leave out everything before it."""
    image_bytes: int = IMAGE_BYTES
    """An image larger than this, in bytes of the file, is replaced by a line that says so."""


class RepairedCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A repaired copy: the id to resume it by, its path, and what was done, in words."""

    session: str
    path: Path
    done: tuple[str, ...]
    done_clauses: tuple[tuple[Clause, ...], ...] = ()
    """Each of them as data, in the same order."""


class AfterAnchor:
    """Call it with each entry in turn. ``upto`` says which entries belong to the part before the anchor."""

    def __init__(self, upto: Callable[[Entry], bool]) -> None:
        self._upto = upto
        self.found = False
        """Whether the anchor is in the session."""

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
    """The id of the nth entry of the record that starts at this place."""
    return f"{start}.{n}"


def damaged(start: int, why: str) -> Entry:
    return Entry(id=entry_id(start), kind="damaged", text=why, restored=False)
