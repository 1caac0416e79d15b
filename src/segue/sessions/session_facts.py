"""What is known about a session besides its entries: it decides what a check finds."""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent, SessionArchive, StoredSession
from segue.core.errors import SegueError
from segue.core.model import Pin
from segue.core.transcript import Brief, Entry
from segue.sessions.catalog import KnownSessions, SessionCatalog, short_name
from segue.sessions.counts import Load, context_load
from segue.sessions.listing import Listed
from segue.system import clock


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    """The shortest beginning of the id that no other session shares."""
    agent: str
    label: str
    brief: Brief
    size: int
    max_bytes: int
    directory_there: bool
    anywhere: bool
    """The CLI resumes its sessions in any directory."""
    load: Load
    expires_ms: int | None
    kept: bool
    """Segue has a copy of it."""
    end: str | None
    left_at: str | None
    """Where Segue left it, if a conversation has it pinned."""
    conversation: str | None
    tried: tuple[str, ...]
    """The versions of the CLI that Segue was tested with; empty: any version is fine."""
    now_ms: int


def facts_of(catalog: SessionCatalog, found: Listed) -> Facts:
    place, brief = found.place, found.brief
    agent = registry.get(place.agent, catalog.config)
    known = catalog.known(place.agent, found.id)
    pin = _pin(catalog, known)
    cwd = Path(brief.cwd) if brief.cwd else None
    resumable = place.format.find(place.home, found.id, cwd or catalog.here) if pin is not None else None
    window = known.row.context.window if known.row is not None else None
    return Facts(
        id=found.id,
        name=short_name(catalog.places, found.id),
        agent=place.agent,
        label=agent.facts.label,
        brief=brief,
        size=found.stored.size,
        max_bytes=catalog.config.continuity.max_session_mb * 1024 * 1024,
        directory_there=cwd is not None and cwd.is_dir(),
        anywhere=_anywhere(catalog, agent),
        load=context_load(brief, place.archive.window_rules, window),
        expires_ms=place.archive.expires_ms(found.stored, brief),
        kept=catalog.is_kept(place.agent, found.id),
        end=place.format.end(resumable) if resumable is not None else None,
        left_at=pin.end if pin is not None else None,
        conversation=known.conversation,
        tried=place.archive.window_rules.tried,
        now_ms=clock.now_ms(),
    )


def torn(reader: SessionArchive, stored: StoredSession) -> tuple[Entry, ...]:
    """The last record, if it is incomplete. Reading a session leaves it out: more of it may follow."""
    last = next(iter(reader.back(stored)), None)
    damaged = last is not None and bool(last.entries) and last.entries[0].kind == "damaged"
    if last is None or not damaged or not stored.appends:
        return ()
    whole = any(record.start == last.start for record in reader.read(stored, last.start))
    return () if whole else tuple(last.entries)


def _anywhere(catalog: SessionCatalog, agent: Agent) -> bool:
    """Whether the installed CLI resumes its sessions in any directory; True if it is not installed."""
    command = catalog.config.commands.get(agent.facts.name)
    try:
        runtime = probe.probe(agent, env=catalog.env, configured=command, cache=catalog.home.probes)
    except SegueError:
        return True
    return runtime.capabilities.cwd_scope == "any"


def _pin(catalog: SessionCatalog, known: KnownSessions) -> Pin | None:
    if not known.pinned or known.row is None or known.conversation is None:
        return None
    conversation = catalog.store.conversation(known.conversation)
    pins = catalog.store.pins(conversation.id) if conversation is not None else []
    return next((pin for pin in pins if pin.session == known.row.id), None)
