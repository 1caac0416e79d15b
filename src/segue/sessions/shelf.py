"""All native sessions of this machine, with what Segue knows of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from segue.config.homes import Home, home_of
from segue.config.hosts import this_host
from segue.config.load import load
from segue.config.schema import Config
from segue.core.errors import SegueError
from segue.core.hosts import Host
from segue.sessions import finding
from segue.sessions.listing import Listed, exact, in_directory, listed
from segue.sessions.places import Place, places
from segue.store import kept
from segue.store.records import SessionRow
from segue.store.store import Store


class Known(msgspec.Struct, frozen=True):
    """What Segue knows of a session."""

    conversation: str | None = None
    """The key of the conversation it belongs to."""
    pinned: bool = False
    """A conversation's next turn would go on with it."""
    ours: bool = False
    """A turn of ours made it."""
    row: SessionRow | None = None


NOTHING = Known()
NOT_MADE = ("adopt", "fork")
"""Rows for a session that was there before; whether we made it, the row says that was there first."""


class Shelf:
    """The sessions of one environment: where they lie, and whose they are."""

    def __init__(self, env: Mapping[str, str], store: Store, here: Path) -> None:
        self.env, self.store, self.here = env, store, here
        self.home: Home = home_of(env)
        self.config: Config = load(env, here)
        self.host = this_host(self.config.store.host, self.home)
        rows = store.sessions()
        here_made = [row for row in rows if self.host.has(row)]
        self.places: list[Place] = places(env, self.config, self.home, here_made)
        self._known = _known(store, rows, self.host)

    def all(self) -> list[Listed]:
        return listed(self.places, self.home.briefs)

    def sessions(self, everywhere: bool, agents: Iterable[str] = ()) -> list[Listed]:
        """Those of the directory, or of all directories; the last used first."""
        wanted = set(agents)
        found = [each for each in self.all() if not wanted or each.place.agent in wanted]
        return found if everywhere else list(in_directory(found, self.here))

    def exact(self, found: Sequence[Listed]) -> list[Listed]:
        """The same, for somebody who looks at how many messages they have."""
        return exact(found, self.home.briefs)

    def find(self, name: str) -> Listed:
        """The session that is meant, or ``Misuse``."""
        return finding.find(self.places, name)

    def newest(self) -> Listed:
        return finding.newest(self.places, self.here, self.home.briefs)

    def is_kept(self, agent: str, native_id: str) -> bool:
        """Whether Segue has a copy of it."""
        return (agent, native_id) in self._kept

    @cached_property
    def counted(self) -> dict[str, tuple[int, int]]:
        """By path: how much of a session the search index has read, and how many messages were in that."""
        if not self.home.index.exists():
            return {}
        from segue.sessions.index import open_index

        try:
            with open_index(self.home.index) as index:
                return index.counts()
        except (SegueError, sqlite3.Error):
            return {}

    @cached_property
    def _kept(self) -> set[tuple[str, str]]:
        return {(row.agent, row.native_id) for row in kept.every(self.store.db)}

    def known(self, agent: str, native_id: str) -> Known:
        return self._known.get((agent, native_id), NOTHING)


def _known(store: Store, rows: Iterable[SessionRow], host: Host) -> dict[tuple[str, str], Known]:
    """Rows come newest first; where forks share a session, the one it came from counts.

    Of another host's rows only the pins do: homes may be shared.
    """
    pins = store.all_pins()
    keys = {each.conversation.id: each.conversation.key for each in store.conversations()}
    found = {made: Known(ours=True) for made in store.tried(host)}
    for row in rows:
        key = (row.agent, row.native_id)
        before = found.get(key, NOTHING)
        pinned = pins.get(row.id)
        is_here = host.has(row)
        if not is_here and pinned is None:
            continue
        mine = keys.get(row.conversation or "")
        found[key] = Known(
            conversation=before.conversation if before.pinned else pinned or mine or before.conversation,
            pinned=before.pinned or pinned is not None,
            ours=before.ours or (is_here and row.how not in NOT_MADE),
            row=row if is_here and (row.parent is None or before.row is None) else before.row,
        )
    return found
