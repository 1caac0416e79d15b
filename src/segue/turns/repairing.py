"""Repairs a session: a sound copy beside it, read back, rehearsed, and given to its conversation.

All under the leases of the conversation and the session, so that nothing is said meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
from anyio.to_thread import run_sync

from segue.agents import registry
from segue.agents.base import Agent, Mended, Mending
from segue.agents.reader import entries_of
from segue.core.errors import Broken, InUse, Misuse
from segue.core.keys import new_id
from segue.core.model import Pin
from segue.sessions.checking import Finding, Seen, check
from segue.sessions.dialogue import dialogue, in_force
from segue.sessions.examining import facts_of
from segue.sessions.listing import Listed
from segue.sessions.shelf import Shelf
from segue.store.adopting import Successor
from segue.store.records import Conversation, SessionRow
from segue.store.store import Store
from segue.turns.changes import changing
from segue.turns.lease import Busy, alone, native_lease
from segue.turns.trial import Trial, trial

WAIT_S = 2.0
SPOKEN = ("user", "assistant", "call", "result")


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
    stays: str | None = None
    """Why a conversation that has the session does not go on with the copy."""


class _Owner(msgspec.Struct, frozen=True):
    """The conversation that has the session pinned."""

    conversation: Conversation
    pin: Pin


async def repair(
    shelf: Shelf, store: Store, env: Mapping[str, str], found: Listed, mending: Mending
) -> Repaired:
    """Write the copy and verify it. A copy that turns out not to work is taken away again: ``Broken``."""
    agent = registry.get(found.place.agent, shelf.config)
    if agent.sessions is None:
        raise Misuse(f"the sessions of {agent.label} cannot be repaired: their format is not known")
    owner = _owner(shelf, store, found)
    if owner is not None:
        found = _where_pinned(found, owner.pin)
    async with _alone(shelf, store, found, owner):
        more = owner is not None and await run_sync(_has_more, agent, found, owner.pin)
        mended = await run_sync(agent.sessions.repair, found.stored, str(uuid4()), mending)
        copy: Listed | None = None
        try:
            copy = _read_back(found, mended)
            findings = await run_sync(_examined, shelf, copy)
            tried = await trial(agent, shelf.config, env, shelf.home.probes, copy)
            if tried.resumed is False:
                raise Broken(f"the copy was taken away again, because {agent.label} refused it: {tried.why}")
        except BaseException:
            if copy is not None:
                agent.sessions.remove(copy.stored)
            raise
        stays = None
        if not (mended.done or mending.trim or mending.since):
            agent.sessions.remove(copy.stored)
            return _sound(found, findings)
        if owner is None:
            store.note_session(_row(shelf, found, copy))
        else:
            stays = await run_sync(_why_it_stays, store, owner, copy, more, mending)
            if stays is None:
                _hand_over(store, agent, owner, copy, mended)
            else:
                store.note_session(_row(shelf, found, copy))
    key = owner.conversation.key if owner is not None and stays is None else None
    return _told(found, copy, mended, tried, findings, key, stays)


def _sound(found: Listed, findings: tuple[Finding, ...]) -> Repaired:
    """There was nothing to repair: the session stays what it is."""
    return Repaired(
        session=found.id,
        path=found.stored.file,
        done=(),
        size=found.stored.size,
        size_before=found.stored.size,
        rehearsed=None,
        why_not="nothing had to be repaired",
        findings=findings,
        conversation=None,
    )


def _row(shelf: Shelf, found: Listed, copy: Listed) -> SessionRow:
    """So that it is known who made it."""
    now = time.time_ns() // 1_000_000
    return SessionRow(
        id=new_id(now, os.urandom(10)),
        agent=found.place.agent,
        account=found.place.account or "",
        native_id=copy.id,
        host=shelf.host.name,
        host_id=shelf.host.id,
        home=str(copy.place.home),
        cwd=found.brief.cwd or "",
        path=copy.stored.file,
        created_ms=now,
        last_used_ms=now,
        how="repair",
    )


def _owner(shelf: Shelf, store: Store, found: Listed) -> _Owner | None:
    known = shelf.known(found.place.agent, found.id)
    conversation = store.conversation(known.conversation or "") if known.pinned else None
    if conversation is None or known.row is None:
        return None
    pins = [pin for pin in store.pins(conversation.id) if pin.session == known.row.id]
    return _Owner(conversation, pins[0]) if pins else None


def _where_pinned(found: Listed, pin: Pin) -> Listed:
    """The same session may lie in several private homes: the one that the conversation goes on with."""
    home = Path(pin.home)
    stored = found.place.reader.find(home, found.id)
    if stored is None or os.path.realpath(home) == os.path.realpath(found.place.home):
        return found
    place = msgspec.structs.replace(found.place, home=home)
    return Listed(place, stored, place.reader.brief(stored))


@asynccontextmanager
async def _alone(shelf: Shelf, store: Store, found: Listed, owner: _Owner | None) -> AsyncIterator[None]:
    """Nobody goes on with the session, or with the conversation that has it."""
    try:
        async with AsyncExitStack() as stack:
            if owner is not None:
                await stack.enter_async_context(
                    changing(store, owner.conversation, shelf.home, shelf.host, WAIT_S)
                )
            name = native_lease(found.place.agent, shelf.host, found.id)
            locks = shelf.home.locks
            await stack.enter_async_context(alone(store, name, host=shelf.host, locks=locks, wait_s=WAIT_S))
            yield
    except Busy as busy:
        raise InUse(f"the session {found.id} cannot be repaired now: {busy}") from None


def _has_more(agent: Agent, found: Listed, pin: Pin) -> bool:
    """Whether anything was said behind the place where we left the session; or that place is not known."""
    if agent.sessions is None or pin.end is None:
        return True
    behind = agent.sessions.behind(pin.end)
    entries = entries_of(found.place.reader, found.stored)
    more = [entry for entry in entries if behind(entry) and entry.kind in SPOKEN and not entry.again]
    return bool(more) or not behind.found


def _read_back(found: Listed, mended: Mended) -> Listed:
    stored = found.place.reader.find(found.place.home, mended.session)
    if stored is None:
        raise Broken(f"the copy {mended.session} was written, but is not found")
    return Listed(found.place, stored, found.place.reader.brief(stored))


def _examined(shelf: Shelf, copy: Listed) -> tuple[Finding, ...]:
    findings = check(facts_of(shelf, copy), Seen().look(entries_of(copy.place.reader, copy.stored)))
    sick = [each for each in findings if each.level == "error" and each.check not in ("size", "directory")]
    if sick:
        raise Broken(f"the copy is not sound either: {sick[0].means}")
    return tuple(each for each in findings if each.level != "ok")


def _why_it_stays(store: Store, owner: _Owner, copy: Listed, more: bool, mending: Mending) -> str | None:
    """Why the conversation cannot go on with the copy: it must hold what the session held, and no more."""
    pin = store.pin(owner.conversation.id, owner.pin.voice, owner.pin.account, owner.pin.login)
    if mending.since is not None:
        return "the copy begins later"
    if pin is None or (pin.session, pin.end) != (owner.pin.session, owner.pin.end):
        return "it went on meanwhile"
    if more:
        return "the session has more than the conversation: a prompt that failed, or somebody else's turns"
    entries = list(entries_of(copy.place.reader, copy.stored))
    said = iter([each.text for each in dialogue(in_force(entries))])
    texts = store.texts([row.message for row in pin.held if not row.second_hand])
    own = [texts[row.message].strip() for row in pin.held if row.message in texts and not row.second_hand]
    if all(any(text in each for each in said) for text in own):
        return None
    return "a message that the conversation has was in a part that could not be read"


def _hand_over(store: Store, agent: Agent, owner: _Owner, copy: Listed, mended: Mended) -> None:
    """The conversation goes on with the copy; the old session keeps its id, and the reason."""
    now, pin = time.time_ns() // 1_000_000, owner.pin
    assert agent.sessions is not None
    look = agent.sessions.look(copy.place.home, copy.id, Path(pin.workdir.path))
    successor = Successor(
        session=new_id(now, os.urandom(10)),
        native_id=copy.id,
        home=str(copy.place.home),
        end=look.end if look is not None else None,
        how="repair",
        reason="it was repaired: the conversation goes on with the copy",
        changed=bool(mended.done),
    )
    store.repin(owner.conversation.id, pin, successor, now)


def _told(
    found: Listed,
    copy: Listed,
    mended: Mended,
    tried: Trial,
    findings: tuple[Finding, ...],
    key: str | None,
    stays: str | None,
) -> Repaired:
    return Repaired(
        session=copy.id,
        path=copy.stored.file,
        done=mended.done,
        size=copy.stored.size,
        size_before=found.stored.size,
        rehearsed=tried.resumed,
        why_not=tried.why,
        findings=findings,
        conversation=key,
        stays=stays,
    )
