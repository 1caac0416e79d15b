"""The JSON objects about one session, and those that ``segue sessions check``, ``repair``, ``restore`` and
``prune`` print."""

from __future__ import annotations

import msgspec

from segue.core.turn import Clause
from segue.sessions.check import Finding
from segue.sessions.counts import Load, Tally
from segue.sessions.summary import SessionShown


class SessionInfo(SessionShown, frozen=True, kw_only=True):
    """A session as in the list, and what a resume of it would do."""

    load: Load
    """What a resume would load, and whether the CLI would compact at once."""
    counts: Tally
    """What a resume would restore, and what not. ``whole`` false: the session is large, and only its
    beginning and its end were counted."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a session. ``sound``: a resume would work."""

    schema: int = 1
    session: str
    agent: str
    sound: bool
    load: Load
    findings: tuple[Finding, ...]


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """The repaired copy: what was changed, and how it was verified. If there was nothing to repair,
    ``session`` is the session itself."""

    schema: int = 1
    agent: str
    session: str
    path: str
    done: tuple[str, ...]
    """What was changed, in words."""
    size: int
    size_before: int
    rehearsed: bool | None
    """Whether the CLI resumed it in a rehearsal; None: this could not be tried, see ``why_not``."""
    why_not: str
    findings: tuple[Finding, ...]
    """What is still wrong with the copy."""
    conversation: str | None
    """The conversation that continues with the copy from now on."""
    stays: str | None = None
    """Why the session's conversation does not continue with the copy."""
    done_clauses: tuple[tuple[Clause, ...], ...] = ()
    """Each line of ``done`` as data, in the same order; empty if an adapter tells it in words only."""
    why_not_clauses: tuple[Clause, ...] = ()
    """``why_not`` as data; empty if it is the CLI's own words."""
    stays_clauses: tuple[Clause, ...] = ()


class RestoredSession(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    agent: str
    account: str | None
    conversation: str | None
    path: str
    files: int
    size: int


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions restored from the copies that Segue kept."""

    schema: int = 1
    restored: tuple[RestoredSession, ...]


class PrunedSession(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    agent: str
    size: int
    last_used: int
    ours: bool
    """A turn of Segue made it."""
    conversation: str | None
    path: str
    why: str
    why_clauses: tuple[Clause, ...] = ()
    """``why`` as data."""


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that were deleted, or would be (``deleted`` false)."""

    schema: int = 1
    deleted: bool
    freed: int
    """Bytes."""
    failed: int = 0
    """How many could not be deleted."""
    sessions: tuple[PrunedSession, ...]
    homes: tuple[str, ...]
    """Private homes of runners that no longer exist."""
