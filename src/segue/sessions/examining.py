"""Gathers what a check of a session has to know beside what stands in it."""

from __future__ import annotations

import time
from pathlib import Path

from segue.agents import probe, registry
from segue.agents.base import Agent, Found
from segue.agents.reader import Reader, Stored
from segue.core.errors import SegueError
from segue.core.model import Pin
from segue.core.transcript import Entry
from segue.sessions.checking import Facts
from segue.sessions.finding import short_name
from segue.sessions.listing import Listed
from segue.sessions.shelf import Known, Shelf
from segue.sessions.tally import load


def facts_of(shelf: Shelf, found: Listed) -> Facts:
    place, brief = found.place, found.brief
    agent = registry.get(place.agent, shelf.config)
    known = shelf.known(place.agent, found.id)
    pin = _pin(shelf, known)
    cwd = Path(brief.cwd) if brief.cwd else None
    look: Found | None = None
    if agent.sessions is not None and pin is not None:
        look = agent.sessions.look(place.home, found.id, cwd or shelf.here)
    window = known.row.context.window if known.row is not None else None
    return Facts(
        id=found.id,
        name=short_name(shelf.places, found.id),
        agent=place.agent,
        label=agent.label,
        brief=brief,
        size=found.stored.size,
        max_bytes=shelf.config.continuity.max_session_mb * 1024 * 1024,
        directory_there=cwd is not None and cwd.is_dir(),
        anywhere=_anywhere(shelf, agent),
        load=load(brief, place.reader.allowance, window),
        expires_ms=place.reader.expires_ms(found.stored, brief),
        kept=shelf.is_kept(place.agent, found.id),
        end=look.end if look is not None else None,
        left_at=pin.end if pin is not None else None,
        conversation=known.conversation,
        tried=place.reader.allowance.tried,
        now_ms=time.time_ns() // 1_000_000,
    )


def torn(reader: Reader, stored: Stored) -> tuple[Entry, ...]:
    """A last record that was never finished: what is still written is left out when a session is read."""
    last = next(iter(reader.back(stored)), None)
    damaged = last is not None and bool(last.entries) and last.entries[0].kind == "damaged"
    if last is None or not damaged or not stored.appends:
        return ()
    whole = any(record.start == last.start for record in reader.read(stored, last.start))
    return () if whole else tuple(last.entries)


def _anywhere(shelf: Shelf, agent: Agent) -> bool:
    """Whether the CLI that is installed here minds the directory; if none is, nobody minds."""
    command = shelf.config.commands.get(agent.name)
    try:
        runtime = probe.probe(agent, env=shelf.env, configured=command, cache=shelf.home.probes)
    except SegueError:
        return True
    return runtime.capabilities.cwd_scope == "any"


def _pin(shelf: Shelf, known: Known) -> Pin | None:
    if not known.pinned or known.row is None or known.conversation is None:
        return None
    conversation = shelf.store.conversation(known.conversation)
    pins = shelf.store.pins(conversation.id) if conversation is not None else []
    return next((pin for pin in pins if pin.session == known.row.id), None)
