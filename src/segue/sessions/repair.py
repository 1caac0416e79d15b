"""A rehearsal resume: the real CLI goes on with a copy of a session, against a model on loopback.

The copy lies in a home that is thrown away, no token is spent, and the agent may only read. It runs in the
session's own directory, though, where the project's own hooks may run.

Repairs a session: a sound copy beside it, read back, rehearsed, and given to its conversation.

All under the leases of the conversation and the session, so that nothing is said meanwhile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from anyio.to_thread import run_sync

from segue.agents import probe, registry
from segue.agents.base import Agent, RepairedCopy, RepairOptions, entries_of
from segue.config.schema import Config
from segue.core.environment import child_environment
from segue.core.errors import Broken, InUse, NotInstalled
from segue.core.model import Pin
from segue.core.request import ModelAddress, Request, RunPlace, Runtime, Start
from segue.rehearsal.log import LoggedRequest as Asked
from segue.runner.attempt import Task, attempt
from segue.runner.supervisor import Limits
from segue.sessions.catalog import SessionCatalog
from segue.sessions.check import Finding, Seen, check, facts_of
from segue.sessions.listing import Listed
from segue.sessions.reading import in_force, session_dialogue
from segue.store.forks import Successor
from segue.store.leases import LeaseBusy, alone, native_lease
from segue.store.records import Conversation, SessionRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.changes import changing

REHEARSAL_S = 120.0
REHEARSAL_REFUSED = frozenset({"session_rejected", "context_exceeded", "protocol"})
"""Failures that say something about the session; a machine that is too slow says nothing."""
REHEARSAL_PROMPT = "Answer with one word: rehearsed."


class Rehearsal(msgspec.Struct, frozen=True):
    """``resumed`` None: it could not be tried, for the reason ``why``."""

    resumed: bool | None
    why: str = ""
    sent: str = ""
    """All that the model was sent of the session."""


class _First:
    """The first request of the conversation itself. All others are forgotten: a session is not to be kept a
    second time in some log."""

    text = ""

    def __call__(self, request: Asked) -> None:
        if not self.text and not request.side:
            self.text = msgspec.json.encode(request.body).decode()


async def rehearse(
    agent: Agent, config: Config, env: Mapping[str, str], cache: Path, found: Listed
) -> Rehearsal:
    """Whether the CLI resumes the session."""
    from segue.rehearsal.server import LoopbackModel
    from segue.rehearsal.stage import asks_model, on_stage, stage

    if not asks_model(agent.rehearse):
        return Rehearsal(None, f"{agent.facts.label} cannot be rehearsed")
    cwd = _directory(found)
    if cwd is None:
        return Rehearsal(None, "the directory it was begun in is gone")
    sent = _First()
    with (
        tempfile.TemporaryDirectory(prefix="segue-trial-") as folder,
        LoopbackModel(kept=0, heard=sent) as model,
    ):
        place, name = Path(folder), agent.facts.name
        address = ModelAddress(model.url, model.key)
        home = place / name
        staged = stage(address, place, {name: agent.rehearse}, registry.variables())
        child = child_environment(
            on_stage(env, staged), registry.variables(), account_env=staged.by_agent[name]
        )
        surroundings = {**child.env, **agent.home_env(home)}
        try:
            runtime = probe.probe(
                agent, env=surroundings, configured=config.commands.get(agent.facts.name), cache=cache
            )
        except NotInstalled:
            return Rehearsal(None, f"{agent.facts.label} is not installed here")
        _copy(found, home)
        outcome = await attempt(_task(agent, runtime, found, cwd, home, place / "run", surroundings))
    failure = outcome.failure
    if failure is not None:
        refused = failure.kind in REHEARSAL_REFUSED or failure.status == 400
        return Rehearsal(False if refused else None, failure.message or failure.kind)
    return Rehearsal(True, sent=sent.text)


def _directory(found: Listed) -> Path | None:
    cwd = Path(found.brief.cwd) if found.brief.cwd else None
    return cwd if cwd is not None and cwd.is_dir() else None


def _task(
    agent: Agent,
    runtime: Runtime,
    found: Listed,
    cwd: Path,
    home: Path,
    run_dir: Path,
    env: Mapping[str, str],
) -> Task:
    return Task(
        agent=agent,
        runtime=runtime,
        request=Request(prompt=REHEARSAL_PROMPT, cwd=cwd, start=Start("resume", found.id), permission="read"),
        place=RunPlace(run_dir, home, clock.now_ms()),
        env=env,
        home=home,
        limits=Limits(time_s=REHEARSAL_S),
    )


def _copy(found: Listed, home: Path) -> None:
    for path in found.place.reader.files(found.stored):
        if path.is_symlink() or not path.is_file():
            continue
        target = home / path.relative_to(found.stored.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


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


async def repair_session(
    shelf: SessionCatalog, store: Store, env: Mapping[str, str], found: Listed, mending: RepairOptions
) -> Repaired:
    """Write the copy and verify it. A copy that turns out not to work is taken away again: ``Broken``."""
    agent = registry.get(found.place.agent, shelf.config)
    owner = _owner(shelf, store, found)
    if owner is not None:
        found = _where_pinned(found, owner.pin)
    async with _alone(shelf, store, found, owner):
        more = owner is not None and await run_sync(_has_more, found, owner.pin)
        mended = await run_sync(found.place.reader.repair, found.stored, clock.new_uuid(), mending)
        copy: Listed | None = None
        try:
            copy = _read_back(found, mended)
            findings = await run_sync(_examined, shelf, copy)
            tried = await rehearse(agent, shelf.config, env, shelf.home.probes, copy)
            if tried.resumed is False:
                label = agent.facts.label
                raise Broken(f"the copy was taken away again, because {label} refused it: {tried.why}")
        except BaseException:
            if copy is not None:
                found.place.reader.remove(copy.stored)
            raise
        stays = None
        if not (mended.done or mending.trim or mending.since):
            found.place.reader.remove(copy.stored)
            return _sound(found, findings)
        if owner is None:
            store.note_session(_row(shelf, found, copy))
        else:
            stays = await run_sync(_why_it_stays, store, owner, copy, more, mending)
            if stays is None:
                _hand_over(store, owner, copy, mended)
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


def _row(shelf: SessionCatalog, found: Listed, copy: Listed) -> SessionRow:
    """So that it is known who made it."""
    now = clock.now_ms()
    return SessionRow(
        id=clock.new_id(now),
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


def _owner(shelf: SessionCatalog, store: Store, found: Listed) -> _Owner | None:
    known = shelf.known(found.place.agent, found.id)
    conversation = store.conversation(known.conversation or "") if known.pinned else None
    if conversation is None or known.row is None:
        return None
    pins = [pin for pin in store.pins(conversation.id) if pin.session == known.row.id]
    return _Owner(conversation, pins[0]) if pins else None


def _where_pinned(found: Listed, pin: Pin) -> Listed:
    """The same session may lie in several private homes: the one that the conversation goes on with."""
    home = Path(pin.home)
    stored = found.place.format.find(home, found.id)
    if stored is None or os.path.realpath(home) == os.path.realpath(found.place.home):
        return found
    place = msgspec.structs.replace(found.place, home=home)
    return Listed(place, stored, place.reader.brief(stored))


@asynccontextmanager
async def _alone(
    shelf: SessionCatalog, store: Store, found: Listed, owner: _Owner | None
) -> AsyncIterator[None]:
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
    except LeaseBusy as busy:
        raise InUse(f"the session {found.id} cannot be repaired now: {busy}") from None


def _has_more(found: Listed, pin: Pin) -> bool:
    """Whether anything was said behind the place where we left the session; or that place is not known."""
    if pin.end is None:
        return True
    behind = found.place.reader.after(pin.end)
    entries = entries_of(found.place.reader, found.stored)
    more = [entry for entry in entries if behind(entry) and entry.kind in SPOKEN and not entry.again]
    return bool(more) or not behind.found


def _read_back(found: Listed, mended: RepairedCopy) -> Listed:
    stored = found.place.find(mended.session)
    if stored is None:
        raise Broken(f"the copy {mended.session} was written, but is not found")
    return Listed(found.place, stored, found.place.reader.brief(stored))


def _examined(shelf: SessionCatalog, copy: Listed) -> tuple[Finding, ...]:
    findings = check(facts_of(shelf, copy), Seen().look(entries_of(copy.place.reader, copy.stored)))
    sick = [each for each in findings if each.level == "error" and each.check not in ("size", "directory")]
    if sick:
        raise Broken(f"the copy is not sound either: {sick[0].means}")
    return tuple(each for each in findings if each.level != "ok")


def _why_it_stays(
    store: Store, owner: _Owner, copy: Listed, more: bool, mending: RepairOptions
) -> str | None:
    """Why the conversation cannot go on with the copy: it must hold what the session held, and no more."""
    pin = store.pin(owner.conversation.id, owner.pin.voice, owner.pin.account, owner.pin.login)
    if mending.since is not None:
        return "the copy begins later"
    if pin is None or (pin.session, pin.end) != (owner.pin.session, owner.pin.end):
        return "it went on meanwhile"
    if more:
        return "the session has more than the conversation: a prompt that failed, or somebody else's turns"
    entries = list(entries_of(copy.place.reader, copy.stored))
    said = iter([each.text for each in session_dialogue(in_force(entries))])
    texts = store.texts([row.message for row in pin.held if not row.second_hand])
    own = [texts[row.message].strip() for row in pin.held if row.message in texts and not row.second_hand]
    if all(any(text in each for each in said) for text in own):
        return None
    return "a message that the conversation has was in a part that could not be read"


def _hand_over(store: Store, owner: _Owner, copy: Listed, mended: RepairedCopy) -> None:
    """The conversation goes on with the copy; the old session keeps its id, and the reason."""
    now, pin = clock.now_ms(), owner.pin
    sessions = copy.place.format
    resumable = sessions.find(copy.place.home, copy.id, Path(pin.workdir.path))
    successor = Successor(
        session=clock.new_id(now),
        native_id=copy.id,
        home=str(copy.place.home),
        end=sessions.end(resumable) if resumable is not None else None,
        how="repair",
        reason="it was repaired: the conversation goes on with the copy",
        changed=bool(mended.done),
    )
    store.repin(owner.conversation.id, pin, successor, now)


def _told(
    found: Listed,
    copy: Listed,
    mended: RepairedCopy,
    tried: Rehearsal,
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
