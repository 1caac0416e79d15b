"""All native sessions of this machine: finding them by name, and what Segue knows about each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import StoredSession
from segue.config.home import Home, home_of, this_host
from segue.config.load import load
from segue.config.schema import Config
from segue.core.errors import Misuse, NotFound, SegueError
from segue.core.model import Host
from segue.sessions.agent_homes import AgentHome, agent_homes
from segue.sessions.listing import Listed, count_exactly, in_directory, list_sessions
from segue.store.records import SessionRow
from segue.store.store import Store

if TYPE_CHECKING:
    from segue.sessions.resume_command import ResumeCommands

LEAST = 4
"""How many characters of an id must be given."""
NOT_MADE = ("adopt", "fork")
"""Rows of these kinds are for sessions that existed before; whether we made one is in its first row."""


class KnownSessions(msgspec.Struct, frozen=True):
    """What Segue knows about a session."""

    conversation: str | None = None
    """The key of the conversation it belongs to."""
    pinned: bool = False
    """A conversation's next turn would continue it."""
    ours: bool = False
    """A turn of Segue made it."""
    row: SessionRow | None = None


class SessionCatalog:
    """The sessions of one environment: where they are, and which conversations they belong to."""

    def __init__(self, env: Mapping[str, str], store: Store, here: Path) -> None:
        self.env, self.store, self.here = env, store, here
        self.home: Home = home_of(env)
        self.config: Config = load(env, here)
        self.host = this_host(self.config.store.host, self.home)
        rows = store.sessions()
        here_made = [row for row in rows if self.host.has(row)]
        self.places: list[AgentHome] = agent_homes(env, self.config, self.home, here_made)
        self._known = _known(store, rows, self.host)

    def all(self) -> list[Listed]:
        """All sessions, most recently used first."""
        return list_sessions(self.places, self.home.briefs)

    def sessions(self, everywhere: bool, agents: Iterable[str] = ()) -> list[Listed]:
        """The sessions of the directory, or of all directories; most recently used first."""
        wanted = set(agents)
        found = [each for each in self.all() if not wanted or each.place.agent in wanted]
        return found if everywhere else list(in_directory(found, self.here))

    def exact(self, found: Sequence[Listed]) -> list[Listed]:
        """The same sessions, with their messages counted instead of estimated."""
        return count_exactly(found, self.home.briefs)

    def find(self, name: str) -> Listed:
        """The session with that name. Raises ``Misuse`` if there is none, or more than one."""
        return find_session(self.places, name)

    def newest(self) -> Listed:
        return newest_of(self.places, self.here, self.home.briefs)

    def is_kept(self, agent: str, native_id: str) -> bool:
        """Whether Segue has a copy of it."""
        return (agent, native_id) in self._kept

    @cached_property
    def counted(self) -> dict[str, tuple[int, int]]:
        """By path: how many bytes of a session the search index has read, and how many messages they have."""
        if not self.home.index.exists():
            return {}
        from segue.sessions.search.index import open_index

        try:
            with open_index(self.home.index) as index:
                return index.counts()
        except (SegueError, sqlite3.Error):
            return {}

    @cached_property
    def commands(self) -> ResumeCommands:
        """The lines that open sessions in a terminal."""
        from segue.sessions.resume_command import ResumeCommands

        return ResumeCommands(self.env, self.config)

    @cached_property
    def _kept(self) -> set[tuple[str, str]]:
        return {(row.agent, row.native_id) for row in self.store.session_copies()}

    def known(self, agent: str, native_id: str) -> KnownSessions:
        return self._known.get((agent, native_id), NOTHING)


def find_session(places: Sequence[AgentHome], name: str, account: str | None = None) -> Listed:
    """The session whose id begins with ``name``, with ``AGENT:`` or ``AGENT/ACCOUNT:`` before it if several
    do. Raises ``Misuse`` if there is none, or more than one."""
    who, colon, rest = name.partition(":")
    agent, slash, named = who.partition("/") if colon else ("", "", "")
    begin = (rest if colon else name).strip().lower()
    account = named if slash else account
    if len(begin) < LEAST:
        raise Misuse(f'"{name}" is too short for a session\'s id; give at least {LEAST} characters')
    here = [place for place in places if agent in ("", place.agent) and account in (None, place.account)]
    found = [(place, stored) for place in here for stored in _beginning(place, begin)]
    whole = [each for each in found if each[1].id.lower() == begin]
    found = whole or found
    if not found:
        raise NotFound(f'there is no session "{name}"; segue sessions ls --all lists all sessions')
    names = {f"{place.agent}{_account(place)}:{stored.id}" for place, stored in found}
    if len(names) > 1:
        raise Misuse(f'several sessions match "{name}"; choose one: {", ".join(sorted(names)[:5])}')
    place, stored = max(found, key=lambda each: each[1].changed_ns)
    return Listed(place, stored, place.archive.brief(stored))


def newest_of(places: Iterable[AgentHome], here: Path, memory: Path | None = None) -> Listed:
    """The most recently used session of a directory, as the CLIs' own ``--continue`` would choose it."""
    for each in in_directory(list_sessions(places, memory), here):
        if not each.brief.empty:
            return each
    raise Misuse(f"no agent has a session in {here}; segue sessions ls --all lists those of all directories")


def short_names(ids: Iterable[str], least: int = 8) -> dict[str, str]:
    """For each id, the shortest beginning (at least ``least``) that no other id shares."""
    ordered = sorted(set(ids))
    names = {}
    for at, each in enumerate(ordered):
        neighbours = [ordered[n] for n in (at - 1, at + 1) if 0 <= n < len(ordered)]
        shared = max((_shared(each, other) for other in neighbours), default=0)
        names[each] = each[: max(least, shared + 1)]
    return names


def short_name(places: Iterable[AgentHome], session: str) -> str:
    """The shortest beginning of a session's id that no other session on this machine shares."""
    return short_names(
        [session, *(each.id for place in places for each in place.archive.stored(place.home))]
    )[session]


def _shared(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def _account(place: AgentHome) -> str:
    return f"/{place.account}" if place.account not in (None, place.agent) else ""


def _beginning(place: AgentHome, begin: str) -> list[StoredSession]:
    return [stored for stored in place.archive.stored(place.home) if stored.id.lower().startswith(begin)]


def _known(store: Store, rows: Iterable[SessionRow], host: Host) -> dict[tuple[str, str], KnownSessions]:
    """What is known about each session. Rows come newest first. If forks share a session, the row of the
    original counts.

    Of other hosts' rows, only the pins count: homes may be shared.
    """
    pins = store.all_pins()
    keys = {each.conversation.id: each.conversation.key for each in store.conversations()}
    found = {made: KnownSessions(ours=True) for made in store.tried(host)}
    for row in rows:
        key = (row.agent, row.native_id)
        before = found.get(key, NOTHING)
        pinned = pins.get(row.id)
        is_here = host.has(row)
        if not is_here and pinned is None:
            continue
        mine = keys.get(row.conversation or "")
        found[key] = KnownSessions(
            conversation=before.conversation if before.pinned else pinned or mine or before.conversation,
            pinned=before.pinned or pinned is not None,
            ours=before.ours or (is_here and row.how not in NOT_MADE),
            row=row if is_here and (row.parent is None or before.row is None) else before.row,
        )
    return found


NOTHING = KnownSessions()
