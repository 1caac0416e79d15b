"""Gathers the situation of a turn: what the store knows, what stands on disk, what was asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from segue.agents.base import StoredSession
from segue.config.schema import Config
from segue.core import view as history
from segue.core.cut import Cut, HeldIndex, ViewIndex, cut
from segue.core.errors import Misuse
from segue.core.model import Held, Message, Pin, ViewFigures, Voice, Workdir
from segue.core.request import Request, RunPlace, Start
from segue.core.situation import FRAME_BYTES, File, Policy, Situation
from segue.core.turn import Mode, Turn
from segue.store import copies
from segue.store.copies import KeptRow
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.prepare import Prepared

RECENT = 20
"""So many turns are looked back on."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """The situation, and the things behind it that the rest of the turn needs."""

    situation: Situation
    view: tuple[Message, ...]
    """What this voice should know; of a quick survey only what was said since its session was pinned."""
    pin: Pin | None
    found: StoredSession | None
    copy: KeptRow | None = None
    """Our copy of the session, where the session itself is not here."""
    epoch: int
    standing: ViewFigures | None
    under: tuple[str, ...]
    """Whose words an answer may repeat."""
    quick: bool = False
    recent: tuple[Turn, ...] = ()
    """The last turns of the conversation, as they were told."""
    last_used: dict[str, int] = {}
    """When each agent last ended a turn here."""
    interrupted: Turn | None = None
    """The last turn that did anything, if it was interrupted after tools had run, or may have."""

    @property
    def kept(self) -> tuple[Held, ...]:
        """The deliveries of the pinned session that still hold; none after a quick survey."""
        return self.pin.held[: self.situation.cut.rows] if self.pin is not None else ()


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """What the messages of a conversation come to, for one voice."""

    pin: Pin | None
    cut: Cut
    view: tuple[Message, ...]
    standing: ViewFigures | None
    under: tuple[str, ...]
    messages: int
    bytes: int
    hidden: int
    spoke: bool = False
    broken: str = ""
    quick: bool = False
    in_front: frozenset[str] = frozenset()
    """Of the messages on this side of the wall, those from before a blank start included, what nobody has
    answered since."""


def gather(
    prepared: Prepared,
    store: Store,
    conversation: str,
    *,
    new: Message | None = None,
    busy: str | None = None,
    switched_off: dict[str, str] | None = None,
    quick: bool = False,
    unrestored: str | None = None,
    too_long: frozenset[Mode] = frozenset(),
) -> Survey:
    """``new``: the message as it would be, for a turn that is only thought of. ``quick``: look only at what
    was said since the session was pinned, where that is enough to resume it. ``unrestored``: why our copy of
    the session is of no use. ``too_long``: ways whose prompt turned out to be longer than the CLI takes."""
    got = (_since(prepared, store, conversation) if quick else None) or _all(
        prepared, store, conversation, new
    )
    voice, pin = prepared.voice, got.pin
    found = _look(prepared, pin)
    copy = _copy(prepared, store, pin) if found is None and unrestored is None else None
    recent = store.turns(conversation, RECENT)
    file = _file(prepared, pin, found, copy, unrestored)
    window = _window(recent, pin, voice)
    situation = _situation(prepared, store, conversation, got, file, window, busy, switched_off or {})
    situation = msgspec.structs.replace(situation, too_long=too_long)
    return Survey(
        situation=situation,
        view=got.view,
        pin=pin,
        found=found,
        copy=copy,
        epoch=store.epochs(conversation).get(voice, 0),
        standing=got.standing,
        under=got.under,
        quick=got.quick,
        recent=tuple(row.told for row in recent if row.told is not None),
        interrupted=_interrupted(recent, got.in_front),
        last_used={row.voice.agent: row.ended_ms for row in recent if row.ended_ms is not None},
    )


def _situation(
    prepared: Prepared,
    store: Store,
    conversation: str,
    got: Gathered,
    file: File,
    window: int | None,
    busy: str | None,
    switched_off: dict[str, str],
) -> Situation:
    voice, pin = prepared.voice, got.pin
    return Situation(
        policy=policy_of(prepared.config),
        label=prepared.agent.label,
        voice=voice,
        account=prepared.account_name,
        runtime=prepared.runtime,
        switched_off=store.switched_off(prepared.runtime.identity) | switched_off,
        blank="--blank: nothing is carried over" if prepared.ask.blank else None,
        fresh_session=prepared.ask.fresh_session or not prepared.ask.save,
        pin=pin,
        spoke=got.spoke,
        others=_others(store, conversation, voice) if pin is None else (),
        hidden=got.hidden,
        broken=got.broken,
        cut=got.cut,
        view_messages=got.messages,
        view_bytes=got.bytes,
        new_bytes=got.view[-1].size,
        file=file,
        workdir=workdir_of(prepared.request.cwd),
        model=prepared.request.model,
        login=prepared.login,
        offers=_offers(prepared, pin),
        host=prepared.host,
        window=window,
        busy=busy,
        now_ms=clock.now_ms(),
    )


def _all(prepared: Prepared, store: Store, conversation: str, new: Message | None) -> Gathered:
    """Every message is looked at."""
    voice, account, login = prepared.voice, prepared.account_name, prepared.login
    told = prepared.config.continuity.history
    messages = store.messages(conversation)
    if new is not None:
        messages.append(new)
    visible = history.visible(messages, voice, account, login)
    view = history.view(visible, voice, told)
    pin = store.pin(conversation, voice, account, login)
    parted = (
        cut(HeldIndex(pin.held), ViewIndex(view), told, ViewIndex(visible)) if pin else Cut(text=tuple(view))
    )
    hidden, size = history.hidden(messages, voice, account, login), _size(view)
    under = history.under(visible, voice.agent, account, login)
    standing = ViewFigures(
        rewrites=store.rewrites(conversation),
        last="",
        rows=0,
        kept=0,
        messages=len(view),
        bytes=size,
        hidden=hidden,
    )
    return Gathered(
        pin=pin,
        cut=parted,
        view=tuple(view),
        standing=standing if told == "all" else None,
        under=under,
        messages=len(view),
        bytes=size,
        hidden=hidden,
        spoke=pin is None and any(m.sender == "assistant" and m.voice == voice for m in view),
        broken=_broken(parted, messages),
        in_front=_unanswered(history.in_front(messages, voice, account, login)),
    )


def _since(prepared: Prepared, store: Store, conversation: str) -> Gathered | None:
    """Only what was said since the session was pinned: all before it stands, for nothing was changed."""
    voice, account, login = prepared.voice, prepared.account_name, prepared.login
    pin = store.pin(conversation, voice, account, login, held=False)
    stood = pin.standing if pin is not None else None
    if pin is None or stood is None or pin.foreign is not None or prepared.config.continuity.history != "all":
        return None
    if pin.ended is not None:  # what was interrupted before may have to be told
        return None
    if stood.rewrites != store.rewrites(conversation) or prepared.runtime.capabilities.id_on_disk_only:
        return None
    since = store.messages_after(conversation, stood.last)
    if not since or any(message.blank and message.voice == voice for message in since):
        return None
    view = tuple(history.visible(since, voice, account, login))
    hidden = stood.hidden + len(since) - len(view)
    messages, size = stood.messages + len(view), stood.bytes + _size(view)
    return Gathered(
        pin=pin,
        cut=Cut(stood.rows, pin.end or stood.last, True, stood.kept, view),
        view=view,
        standing=msgspec.structs.replace(stood, messages=messages, bytes=size, hidden=hidden),
        under=tuple(sorted({*stood.under, *history.under(view, voice.agent, account, login)})),
        messages=messages,
        bytes=size,
        hidden=hidden,
        quick=True,
    )


def going_on(prepared: Prepared, pin: Pin) -> Request:
    """The request as a session has it that goes on: whether the agent may ask was settled when it began."""
    asks = prepared.runtime.capabilities.questions and pin.questions is not False
    return msgspec.structs.replace(prepared.request, questions=asks)


def _size(view: Sequence[Message]) -> int:
    return sum(message.size for message in view) + FRAME_BYTES * len(view)


def policy_of(config: Config) -> Policy:
    said = config.continuity
    return Policy(
        enabled=said.enabled,
        modes=said.modes,
        graft=said.graft,
        history=said.history,
        ttl_ms=said.ttl_minutes * 60_000,
        context_threshold=said.context_threshold,
        max_session_bytes=said.max_session_mb * 1024 * 1024,
        retire_after=said.retire_after,
        on_model_change=said.on_model_change,
    )


def workdir_of(cwd: Path) -> Workdir:
    """By identity, not by text: a symlink to a directory is that directory."""
    path = os.path.realpath(cwd)
    try:
        stat = os.stat(path)
    except OSError:
        return Workdir(path)
    return Workdir(path, stat.st_dev, stat.st_ino)


def _offers(prepared: Prepared, pin: Pin | None) -> tuple[str, ...] | None:
    """What the command would say of the tools; None where there is nothing to compare it with."""
    if pin is None or pin.offers is None:
        return None
    request = msgspec.structs.replace(
        going_on(prepared, pin), prompt="?", start=Start("resume", pin.native_id), save=True
    )
    try:
        place = RunPlace(prepared.segue_home.runs / prepared.run, prepared.home)
        return prepared.agent.command(request, prepared.runtime, place).offers
    except Misuse:  # it will be said when the turn is planned, if it comes to a resume
        return None


def _look(prepared: Prepared, pin: Pin | None) -> StoredSession | None:
    sessions = prepared.agent.format
    if pin is None or sessions is None or not prepared.host.has(pin):
        return None
    return sessions.find(Path(pin.home), pin.native_id, prepared.request.cwd)


def _copy(prepared: Prepared, store: Store, pin: Pin | None) -> KeptRow | None:
    if pin is None or prepared.agent.format is None or not prepared.config.keep.enabled:
        return None
    return copies.find(store.db, pin.voice.agent, pin.account, pin.native_id)


def _file(
    prepared: Prepared,
    pin: Pin | None,
    found: StoredSession | None,
    copy: KeptRow | None,
    unrestored: str | None,
) -> File:
    sessions = prepared.agent.format
    if found is not None and sessions is not None:
        return File(True, found.size, sessions.end(found))
    if pin is None or sessions is None:
        return File()
    gone = False if prepared.host.has(pin) else None
    return File(gone, kept=copy is not None, unrestored=unrestored)


def _others(store: Store, conversation: str, voice: Voice) -> tuple[str, ...]:
    others = [pin.voice for pin in store.pins(conversation) if pin.voice != voice]
    return tuple(f"{each.agent} ({each.role})" if each.role else each.agent for each in dict.fromkeys(others))


def _broken(parted: Cut, messages: list[Message]) -> str:
    """In words: what became of the first message that the session holds and the view does not."""
    if parted.broken is None:
        return ""
    for n, message in enumerate(messages, 1):
        if message.id == parted.broken.message:
            changed = message.revision != parted.broken.revision
            return f"#{n} was edited" if changed else f"something was said before #{n} that it does not hold"
    return "a message that the session holds was dropped"


def _interrupted(recent: Sequence[TurnRow], in_front: frozenset[str]) -> Turn | None:
    """What failed without doing anything does not count, nor what is not shown: whoever goes on still has to
    know."""
    for row in reversed(recent):
        told = row.told
        if told is None or row.state == "withdrawn" or row.message not in in_front:
            continue
        answered = told.failure is None or row.answer is not None
        if answered or told.tools_run != 0:
            return None if answered else told
    return None


def _unanswered(messages: Sequence[Message]) -> frozenset[str]:
    """Those behind the last answer."""
    answered = [at for at, message in enumerate(messages, 1) if message.sender == "assistant"]
    return frozenset(message.id for message in messages[answered[-1] if answered else 0 :])


def _window(recent: Sequence[TurnRow], pin: Pin | None, voice: Voice) -> int | None:
    if pin is not None and pin.context.window:
        return pin.context.window
    for turn in reversed(recent):
        if turn.voice.agent == voice.agent and turn.told is not None and turn.told.context.window:
            return turn.told.context.window
    return None
