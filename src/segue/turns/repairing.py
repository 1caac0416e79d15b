"""Repairs a session: a sound copy beside it, read back, rehearsed, and given to its conversation."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import msgspec

from segue.agents import registry
from segue.agents.base import Agent, Mended, Mending
from segue.core.errors import Broken, Misuse
from segue.core.keys import new_id
from segue.core.model import Pin
from segue.sessions.checking import Finding, Seen, check
from segue.sessions.examining import facts_of
from segue.sessions.listing import Listed
from segue.sessions.shelf import Known, Shelf
from segue.store.adopting import Successor
from segue.store.store import Store
from segue.turns.trial import Trial, trial


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, what was done, and how it was verified."""

    session: str
    path: str
    done: tuple[str, ...]
    size: int
    size_before: int
    rehearsed: bool | None
    """Whether the CLI went on with it in a rehearsal; None: that could not be tried."""
    why_not: str
    findings: tuple[Finding, ...]
    """What is left to say of the copy."""
    conversation: str | None
    """The conversation that goes on with the copy from now on."""


def repair(shelf: Shelf, store: Store, env: Mapping[str, str], found: Listed, mending: Mending) -> Repaired:
    """Write the copy and verify it. A copy that turns out not to work is taken away again: ``Broken``."""
    agent = registry.get(found.place.agent, shelf.config)
    if agent.sessions is None:
        raise Misuse(f"the sessions of {agent.label} cannot be repaired: their format is not known")
    mended = agent.sessions.repair(found.stored, str(uuid4()), mending)
    copy = _read_back(found, mended)
    try:
        findings = _examined(shelf, copy)
        tried = trial(agent, shelf.config, env, shelf.home.probes, copy)
        if tried.resumed is False:
            raise Broken(f"the copy was taken away again, because {agent.label} refused it: {tried.why}")
    except BaseException:
        agent.sessions.remove(copy.stored)
        raise
    known = shelf.known(found.place.agent, found.id)
    key = _handed_over(store, agent, known, found, copy) if mending.since is None else None
    return _told(found, copy, mended, tried, findings, key)


def _read_back(found: Listed, mended: Mended) -> Listed:
    stored = found.place.reader.find(found.place.home, mended.session)
    if stored is None:
        raise Broken(f"the copy {mended.session} was written, but is not found")
    return Listed(found.place, stored, found.place.reader.brief(stored))


def _examined(shelf: Shelf, copy: Listed) -> tuple[Finding, ...]:
    entries = (entry for record in copy.place.reader.read(copy.stored) for entry in record.entries)
    findings = check(facts_of(shelf, copy), Seen().look(entries))
    sick = [each for each in findings if each.level == "error" and each.check not in ("size", "directory")]
    if sick:
        raise Broken(f"the copy is not sound either: {sick[0].means}")
    return tuple(each for each in findings if each.level != "ok")


def _handed_over(store: Store, agent: Agent, known: Known, found: Listed, copy: Listed) -> str | None:
    """The conversation that had the session pinned goes on with the copy; the old one keeps its id."""
    conversation = store.conversation(known.conversation or "") if known.pinned else None
    if conversation is None or known.row is None or agent.sessions is None:
        return None
    pins = [pin for pin in store.pins(conversation.id) if pin.session == known.row.id]
    for pin in pins:
        look = agent.sessions.look(found.place.home, copy.id, Path(pin.workdir.path))
        _move(store, conversation.id, pin, copy, look.end if look is not None else None)
    return conversation.key if pins else None


def _move(store: Store, conversation: str, pin: Pin, copy: Listed, end: str | None) -> None:
    now = time.time_ns() // 1_000_000
    successor = Successor(
        session=new_id(now, os.urandom(10)),
        native_id=copy.id,
        end=end,
        how="repair",
        reason="it was repaired: the conversation goes on with the copy",
    )
    store.repin(conversation, pin, successor, now)


def _told(
    found: Listed,
    copy: Listed,
    mended: Mended,
    tried: Trial,
    findings: tuple[Finding, ...],
    key: str | None,
) -> Repaired:
    return Repaired(
        session=copy.id,
        path=str(copy.stored.path),
        done=mended.done,
        size=copy.stored.size,
        size_before=found.stored.size,
        rehearsed=tried.resumed,
        why_not=tried.why,
        findings=findings,
        conversation=key,
    )
