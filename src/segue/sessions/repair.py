"""Repairs a session: writes a repaired copy beside it, reads it back, rehearses it, and lets the conversation
continue with it.

The leases of the conversation and the session are held meanwhile, so that neither changes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from anyio.to_thread import run_sync

from segue.agents import registry
from segue.agents.base import RepairedCopy, RepairOptions, entries_of
from segue.core.errors import Broken, InUse
from segue.core.model import Pin
from segue.core.turn import Clause
from segue.core.verdicts import Said, say
from segue.sessions.catalog import SessionCatalog
from segue.sessions.check import Finding, Seen, check
from segue.sessions.listing import Listed
from segue.sessions.reading import in_force, session_dialogue
from segue.sessions.resume_rehearsal import Rehearsal, rehearse
from segue.sessions.session_facts import facts_of
from segue.store.forks import Successor
from segue.store.leases import LeaseBusy, alone, held_for_change, native_lease
from segue.store.records import Conversation, SessionRow
from segue.store.store import Store
from segue.system import clock

WAIT_S = 2.0
SPOKEN = ("user", "assistant", "call", "result")


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, what was changed, and how it was verified."""

    session: str
    path: str
    done: tuple[str, ...] = ()
    size: int
    size_before: int
    rehearsed: bool | None = None
    """Whether the CLI resumed it in a rehearsal; None: this could not be tried."""
    why_not: str
    findings: tuple[Finding, ...]
    """What is still wrong with the copy."""
    conversation: str | None = None
    """The conversation that continues with the copy from now on."""
    stays: str | None = None
    """Why the session's conversation does not continue with the copy."""
    done_clauses: tuple[tuple[Clause, ...], ...] = ()
    why_not_clauses: tuple[Clause, ...] = ()
    stays_clauses: tuple[Clause, ...] = ()


class _Owner(msgspec.Struct, frozen=True):
    """The conversation that has the session pinned."""

    conversation: Conversation
    pin: Pin


class _Copy(msgspec.Struct, frozen=True):
    """A copy that was written, with the results of the checks and the rehearsal."""

    session: Listed
    written: RepairedCopy
    findings: tuple[Finding, ...]
    rehearsal: Rehearsal


async def repair_session(
    catalog: SessionCatalog, store: Store, env: Mapping[str, str], broken: Listed, options: RepairOptions
) -> Repaired:
    """Write the copy and verify it. A copy that does not work is deleted, and ``Broken`` is raised."""
    owner = _owner(catalog, store, broken)
    if owner is not None:
        broken = _where_pinned(broken, owner.pin)
    async with _alone(catalog, store, broken, owner):
        more = owner is not None and await run_sync(_has_more, broken, owner.pin)
        copy = await _verified_copy(catalog, env, broken, options)
        if not (copy.written.done or options.trim or options.since):
            broken.place.archive.remove(copy.session.stored)
            return _unneeded(broken, copy.findings)
        stays = None
        if owner is not None:
            stays = await run_sync(_why_it_stays, store, owner, copy.session, more, options)
        handed_over = owner is not None and stays is None
        if owner is not None and handed_over:
            _hand_over(store, owner, copy)
        else:
            store.note_session(_row(catalog, broken, copy.session))
    key = owner.conversation.key if owner is not None and handed_over else None
    return Repaired(
        session=copy.session.id,
        path=copy.session.stored.file,
        done=copy.written.done,
        size=copy.session.stored.size,
        size_before=broken.stored.size,
        rehearsed=copy.rehearsal.resumed,
        why_not=copy.rehearsal.why.text,
        findings=copy.findings,
        conversation=key,
        stays=stays.text if stays is not None else None,
        done_clauses=copy.written.done_clauses,
        why_not_clauses=copy.rehearsal.why.clauses,
        stays_clauses=stays.clauses if stays is not None else (),
    )


async def _verified_copy(
    catalog: SessionCatalog, env: Mapping[str, str], broken: Listed, options: RepairOptions
) -> _Copy:
    agent, reader = registry.get(broken.place.agent, catalog.config), broken.place.archive
    written = await run_sync(reader.repair, broken.stored, clock.new_uuid(), options)
    copy: Listed | None = None
    try:
        copy = _read_back(broken, written)
        findings = await run_sync(_examined, catalog, copy)
        rehearsal = await rehearse(agent, catalog.config, env, catalog.home.probes, copy)
        if rehearsal.resumed is False:
            label = agent.facts.label
            raise Broken(f"the copy was deleted, because {label} refused it: {rehearsal.why.text}")
    except BaseException:
        if copy is not None:
            reader.remove(copy.stored)
        raise
    return _Copy(copy, written, findings, rehearsal)


def _unneeded(session: Listed, findings: tuple[Finding, ...]) -> Repaired:
    """The result if there was nothing to repair."""
    why = say("nothing had to be repaired", "repair.unneeded")
    return Repaired(
        session=session.id,
        path=session.stored.file,
        size=session.stored.size,
        size_before=session.stored.size,
        why_not=why.text,
        findings=findings,
        why_not_clauses=why.clauses,
    )


def _owner(catalog: SessionCatalog, store: Store, found: Listed) -> _Owner | None:
    known = catalog.known(found.place.agent, found.id)
    conversation = store.conversation(known.conversation or "") if known.pinned else None
    if conversation is None or known.row is None:
        return None
    pins = [pin for pin in store.pins(conversation.id) if pin.session == known.row.id]
    return _Owner(conversation, pins[0]) if pins else None


def _where_pinned(found: Listed, pin: Pin) -> Listed:
    """The session in the home that the conversation uses: several private homes may have a copy."""
    home = Path(pin.home)
    stored = found.place.format.find(home, found.id)
    if stored is None or os.path.realpath(home) == os.path.realpath(found.place.home):
        return found
    place = msgspec.structs.replace(found.place, home=home)
    return Listed(place, stored, place.archive.brief(stored))


@asynccontextmanager
async def _alone(
    catalog: SessionCatalog, store: Store, found: Listed, owner: _Owner | None
) -> AsyncIterator[None]:
    """Hold the leases of the session and of its conversation."""
    host, locks = catalog.host, catalog.home.locks
    try:
        async with AsyncExitStack() as stack:
            if owner is not None:
                held = held_for_change(store, owner.conversation, host=host, locks=locks, wait_s=WAIT_S)
                await stack.enter_async_context(held)
            name = native_lease(found.place.agent, host, found.id)
            await stack.enter_async_context(alone(store, name, host=host, locks=locks, wait_s=WAIT_S))
            yield
    except LeaseBusy as busy:
        raise InUse(f"the session {found.id} cannot be repaired now: {busy}") from None


def _has_more(found: Listed, pin: Pin) -> bool:
    """Whether anything was said after the place where Segue left the session; True if it is not known."""
    if pin.end is None:
        return True
    is_later = found.place.archive.after(pin.end)
    entries = entries_of(found.place.archive, found.stored)
    more = [entry for entry in entries if is_later(entry) and entry.kind in SPOKEN and not entry.again]
    return bool(more) or not is_later.found


def _read_back(found: Listed, written: RepairedCopy) -> Listed:
    stored = found.place.find(written.session)
    if stored is None:
        raise Broken(f"the copy {written.session} was written, but cannot be found")
    return Listed(found.place, stored, found.place.archive.brief(stored))


def _examined(catalog: SessionCatalog, copy: Listed) -> tuple[Finding, ...]:
    findings = check(facts_of(catalog, copy), Seen().look(entries_of(copy.place.archive, copy.stored)))
    errors = [each for each in findings if each.level == "error" and each.check not in ("size", "directory")]
    if errors:
        raise Broken(f"the copy would not work either: {errors[0].means}")
    return tuple(each for each in findings if each.level != "ok")


def _why_it_stays(
    store: Store, owner: _Owner, copy: Listed, more: bool, options: RepairOptions
) -> Said | None:
    """Why the conversation cannot continue with the copy, which must have the session's messages, no more."""
    pin = store.pin(owner.conversation.id, owner.pin.voice, owner.pin.account, owner.pin.login)
    if options.since is not None:
        return say("the copy begins at a later point", "repair.later")
    if pin is None or (pin.session, pin.end) != (owner.pin.session, owner.pin.end):
        return say("the conversation continued in the meantime", "repair.meantime")
    if more:
        why = "a failed prompt, or turns from outside of Segue"
        text = f"the session contains messages that the conversation does not: {why}"
        return say(text, "repair.more")
    entries = list(entries_of(copy.place.archive, copy.stored))
    said = iter([each.text for each in session_dialogue(in_force(entries))])
    texts = store.texts([row.message for row in pin.held if not row.second_hand])
    own = [texts[row.message].strip() for row in pin.held if row.message in texts and not row.second_hand]
    if all(any(text in each for each in said) for text in own):
        return None
    text = "a message of the conversation was in a part that could not be read"
    return say(text, "repair.lost")


def _hand_over(store: Store, owner: _Owner, copy: _Copy) -> None:
    """Let the conversation continue with the copy; the row of the old session gets the reason."""
    now, pin = clock.now_ms(), owner.pin
    place, native_id = copy.session.place, copy.session.id
    resumable = place.format.find(place.home, native_id, Path(pin.workdir.path))
    successor = Successor(
        session=clock.new_id(now),
        native_id=native_id,
        home=str(place.home),
        end=place.format.end(resumable) if resumable is not None else None,
        how="repair",
        reason="it was repaired: the conversation goes on with the copy",
        changed=bool(copy.written.done),
    )
    store.repin(owner.conversation.id, pin, successor, now)


def _row(catalog: SessionCatalog, found: Listed, copy: Listed) -> SessionRow:
    """A row that records that Segue made the copy."""
    now, source = clock.now_ms(), catalog.known(found.place.agent, found.id).row
    return SessionRow(
        id=clock.new_id(now),
        agent=found.place.agent,
        account=found.place.account or "",
        native_id=copy.id,
        host=catalog.host.name,
        host_id=catalog.host.id,
        home=str(copy.place.home),
        cwd=found.brief.cwd or "",
        path=copy.stored.file,
        created_ms=now,
        last_used_ms=now,
        parent=source.id if source is not None else None,
        how="repair",
    )
