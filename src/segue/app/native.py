"""The agents' own sessions: list, read, search and continue them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from segue.agents.base import entries_of
from segue.agents.registry import names as agent_names
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.core.transcript import Entry
from segue.sessions.catalog import SessionCatalog, short_names
from segue.sessions.counts import Load, Tally, context_load, tally_of
from segue.sessions.listing import Listed
from segue.sessions.summary import SessionShown, shown_session, title_of
from segue.system import clock
from segue.turns.request import QueuedRequest

if TYPE_CHECKING:
    from segue.app.ready_turn import Options
    from segue.app.session_shapes import SessionInfo
    from segue.config.schema import Config
    from segue.sessions.reading import Page
    from segue.sessions.search.index import Index
    from segue.sessions.search.search import Hit

MB = 1024 * 1024
AT_ONCE, PART = MB, MB // 4
"""Sessions up to this size are counted as a whole while somebody waits; of others, so much at each end."""
SHORT = 8
"""An id is shortened to this many characters, or to as many as make it unique."""
_AGO = re.compile(r"(\d{1,6})\s*(min|h|d|w)")
_SECONDS = {"min": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def catalog_of(workspace: Workspace, cwd: str | Path | None = None) -> SessionCatalog:
    """The sessions on this machine. ``cwd``: a directory other than the caller's."""
    here = workspace.cwd / cwd if cwd is not None else workspace.cwd
    return SessionCatalog(workspace.env, workspace.store, here)


def refuse_unknown_agents(names: Iterable[str], config: Config) -> None:
    """Raise ``Misuse`` for an unknown agent: otherwise a typo would look like an empty list."""
    for name in names:
        if name not in (known := agent_names(config)):
            raise Misuse(f'there is no agent "{name}". Known: {", ".join(sorted(known))}')


class SessionList:
    """Sessions of one directory or of all, most recently used first."""

    def __init__(self, catalog: SessionCatalog, sessions: list[SessionShown]) -> None:
        self._catalog, self.sessions = catalog, sessions

    @property
    def size_limit(self) -> int:
        """Sessions above this are not resumed."""
        return self._catalog.config.continuity.max_session_mb * MB

    def names(self) -> Mapping[str, str]:
        """For each id, the shortest beginning that no other session on this machine shares."""
        return short_names(each.id for each in self._catalog.all())


def ls(
    workspace: Workspace,
    *,
    everywhere: bool = False,
    agents: Sequence[str] = (),
    cwd: str | Path | None = None,
    limit: int | None = None,
    before: str | None = None,
) -> SessionList:
    catalog = catalog_of(workspace, cwd)
    refuse_unknown_agents(agents, catalog.config)
    found = catalog.sessions(everywhere, agents)
    if before is not None:
        found = _after(found, before)
    listed = catalog.exact(found[:limit])
    return SessionList(catalog, [shown_session(each, catalog) for each in listed])


def _after(sessions: list[Listed], before: str) -> list[Listed]:
    """Those that a list has after the place ``LAST_USED:ID``."""
    from segue.app.conversations import cursor_of

    used_ms, last = cursor_of(before)
    same = [each.id for each in sessions if each.last_used_ms == used_ms]
    seen = same[: same.index(last) + 1] if last in same else same
    return [
        each
        for each in sessions
        if each.last_used_ms < used_ms or (each.last_used_ms == used_ms and each.id not in seen)
    ]


class OpenSession:
    """One session, found by its name and ready to be read."""

    def __init__(self, catalog: SessionCatalog, listed: Listed) -> None:
        self.catalog, self.listed = catalog, listed

    @property
    def id(self) -> str:
        return self.listed.id

    @property
    def agent(self) -> str:
        return self.listed.place.agent

    @property
    def size(self) -> int:
        return self.listed.stored.size

    @cached_property
    def shown(self) -> SessionShown:
        return shown_session(self.listed, self.catalog)

    @property
    def load(self) -> Load:
        """What a resume would load."""
        known = self.catalog.known(self.agent, self.id)
        window = known.row.context.window if known.row is not None else None
        return context_load(self.listed.brief, self.listed.place.archive.window_rules, window)

    def page(
        self,
        *,
        before: str | None = None,
        at: str | None = None,
        after: str | None = None,
        size: int = 100,
        wanted: Callable[[Entry], bool] | None = None,
    ) -> Page:
        """The newest page, the one before an event, the one that ends with an event, or the one after it."""
        from segue.sessions.reading import all_entries, newest_page, page_after, page_around

        if sum(each is not None for each in (before, at, after)) > 1:
            raise Misuse("name one event: before, at or after")
        reader, stored = self.listed.place.archive, self.listed.stored
        if at is not None:
            return page_around(reader, stored, at, size)
        if after is not None:
            return page_after(reader, stored, after, size)
        return newest_page(reader, stored, before_id=before, size=size, wanted=wanted or all_entries)

    def entries(self) -> Iterator[Entry]:
        return entries_of(self.listed.place.archive, self.listed.stored)

    def tally(self, largest: int) -> Tally:
        """What a resume would restore, and what it would not. Of a session that has more bytes, only the
        beginning and the end are counted."""
        from segue.sessions.reading import both_ends

        if self.size <= largest:
            return tally_of(self.entries())
        return tally_of(both_ends(self.listed.place.archive, self.listed.stored, PART), whole=False)

    def info(self) -> SessionInfo:
        """The session as in the list, and what a resume would do; at once, however large it is."""
        from segue.app.session_shapes import SessionInfo

        shown = msgspec.structs.asdict(self.shown)
        return SessionInfo(**shown, load=self.load, counts=self.tally(AT_ONCE))

    def side_chains(self) -> list[tuple[str, Iterator[Entry]]]:
        """What subagents did, if the CLI stores that in separate files: id and entries of each."""
        reader = self.listed.place.archive
        return [
            (chain.id, (msgspec.structs.replace(entry, side=True) for entry in entries_of(reader, chain)))
            for chain in reader.side(self.listed.stored)
        ]

    def followed(self) -> Callable[[Iterable[str]], Iterator[Entry]]:
        """Note where the session ends now. The function returned takes the ids already shown and yields new
        entries."""
        from segue.sessions.reading import end_of, follow_session

        reader, stored = self.listed.place.archive, self.listed.stored
        start = end_of(reader, stored)
        before = [] if stored.appends else [entry.id for entry in self.entries()]

        def follow(shown: Iterable[str]) -> Iterator[Entry]:
            return follow_session(self.listed.place, stored, start, [*shown, *before], stop=lambda: False)

        return follow


def find(workspace: Workspace, name: str) -> OpenSession:
    """The session with that id; otherwise the one that the conversation with that key used last."""
    catalog, store = catalog_of(workspace), workspace.store
    try:
        return OpenSession(catalog, catalog.find(name))
    except Misuse:
        conversation = store.conversation(name)
        pins = store.pins(conversation.id) if conversation is not None else []
        if not pins:
            raise
        return OpenSession(catalog, catalog.find(f"{pins[0].voice.agent}:{pins[0].native_id}"))


class SearchResult:
    """The matches, best and newest first. ``busy``: another process is updating the index."""

    def __init__(self, hits: list[Hit], busy: bool, ids: Iterable[str], catalog: SessionCatalog) -> None:
        self.hits, self.busy = hits, busy
        self._ids, self._places = set(ids), catalog.places

    def short_name(self, hit: Hit) -> str:
        """The shortest beginning of the session's id that no other session shares."""
        for length in range(SHORT, len(hit.session)):
            begin = hit.session[:length]
            if sum(each.startswith(begin) for each in self._ids) == 1:
                return begin
        return hit.session

    def title(self, hit: Hit) -> str:
        for place in self._places:
            if place.agent == hit.agent and hit.path.startswith(str(place.home)):
                stored = place.find(hit.session)
                if stored is not None:
                    return title_of(place.archive.brief(stored)) or ""
        return ""


def search(
    workspace: Workspace,
    text: str,
    *,
    agents: Sequence[str] = (),
    since: str | None = None,
    where: Literal["tool", "text"] | None = None,
    here: bool = False,
    limit: int = 20,
    index: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Search the text of all sessions. ``index`` false: without indexing what is new first."""
    from segue.sessions.search.query import parsed
    from segue.sessions.search.search import Wanted
    from segue.sessions.search.search import search as find_matches

    wanted = Wanted(
        text=text,
        agents=tuple(agents),
        since_ms=since_ms(since, clock.now_s()) if since is not None else None,
        where=where,
        here=workspace.cwd if here else None,
        limit=limit,
    )
    parsed(wanted.text)
    catalog = catalog_of(workspace)
    refuse_unknown_agents(agents, catalog.config)
    opened, busy = _index(catalog, on_progress if index else None, update=index)
    with opened:
        hits = find_matches(opened, catalog.places, wanted)
        return SearchResult(hits, busy, (file.session for file in opened.files()), catalog)


def _index(
    catalog: SessionCatalog, on_progress: Callable[[int, int], None] | None, *, update: bool
) -> tuple[Index, bool]:
    """The index, and whether another process is updating it."""
    from segue.sessions.search.index import open_index
    from segue.sessions.search.update import updated

    if not update:
        return open_index(catalog.home.index), False
    index, done = updated(catalog.home.index, catalog.places, on_progress)
    return index, done.busy


def since_ms(text: str, now_s: float) -> int:
    """The time that ``7d``, ``12h``, ``2w``, ``30min`` or a local date (and time) stands for."""
    from datetime import datetime

    if ago := _AGO.fullmatch(text.strip().lower()):
        return int((now_s - int(ago[1]) * _SECONDS[ago[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise Misuse(
            f"--since {text}: give a time such as 7d, 12h or 2w, or a date such as 2026-11-01"
        ) from None


class Continuation(msgspec.Struct, frozen=True):
    """The turn that continues a session. ``new``: it starts a conversation."""

    key: str
    options: Options
    new: bool


def continuation(
    workspace: Workspace, session: str | None, key: str | None, options: Options
) -> Continuation:
    """The turn that continues ``session`` (None: the newest one of the directory). A session that belongs to
    a conversation continues there; any other becomes one, under ``key`` or a new key."""
    from segue.sessions.session_facts import facts_of

    options = options.copy()
    catalog = catalog_of(workspace, options.get("cwd") or None)
    listed = catalog.find(session) if session is not None else catalog.newest()
    known = catalog.known(listed.place.agent, listed.id)
    owner = known.conversation if known.pinned else _adopting(workspace, listed)
    if owner is not None and key not in (None, owner):
        raise Misuse(f"the session belongs to the conversation {owner}: leave out --key, or fork {owner}")
    facts = facts_of(catalog, listed)
    if owner is None or facts.end != facts.left_at:
        options["adopt"] = f"{listed.place.agent}:{listed.id}"
    if owner is not None and known.row is not None:
        options["agent"] = options.get("agent") or known.row.agent
        options["account"] = options.get("account") or known.row.account or None
        options["cwd"] = options.get("cwd") or listed.brief.cwd
    return Continuation(owner or key or _free_key(workspace, listed), options, owner is None)


def _adopting(workspace: Workspace, listed: Listed) -> str | None:
    """The conversation of an unfinished run that adopts the session."""
    store, name = workspace.store, f"{listed.place.agent}:{listed.id}"
    for row in (*store.line(), *store.begun()):
        if row.request is not None and name in row.request:
            request = msgspec.json.decode(row.request, type=QueuedRequest)
            found = store.conversation_by_id(row.conversation) if request.ask.adopt == name else None
            if found is not None:
                return found.key
    return None


def _free_key(workspace: Workspace, listed: Listed) -> str:
    """``claude-4f50c2d1``, with a number added if a conversation already has that key."""
    name, store = f"{listed.place.agent}-{listed.id[:8]}", workspace.store
    return store.free_key(name) if store.conversation(name) is not None else name
