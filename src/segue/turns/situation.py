"""Gathers the situation of a turn: what is stored, what is on disk, what was requested."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from segue.agents.base import StoredSession
from segue.core import view as history
from segue.core.cut import Cut, HeldIndex, ViewIndex, cut
from segue.core.errors import Misuse
from segue.core.model import Held, Message, Pin, Voice, Workdir
from segue.core.request import Request, RunPlace, Start
from segue.core.situation import FRAME_BYTES, File, Policy, Situation
from segue.core.turn import Mode, Turn
from segue.core.verdicts import Said, say
from segue.store.copies import KeptRow
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.payer import paid_before, pays_of
from segue.turns.pinned_home import moved_from
from segue.turns.prepare import Prepared

RECENT = 20
"""How many of the last turns are considered."""


class Obstacles(msgspec.Struct, frozen=True, kw_only=True):
    """What turned out to be impossible when it was tried."""

    closed: dict[str, str] = {}
    """Capabilities that cannot be used in this turn, each with the reason."""
    too_long: frozenset[Mode] = frozenset()
    """Modes whose prompt turned out to be longer than the CLI accepts."""
    unrestored: str | None = None
    """Why our copy of the session could not be restored."""


NO_OBSTACLES = Obstacles()


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """The situation, and the underlying values that the rest of the turn needs."""

    situation: Situation
    view: tuple[Message, ...]
    """What this voice should know; the new message is the last."""
    pin: Pin | None
    found: StoredSession | None
    copy: KeptRow | None = None
    """Our copy of the session, if the session itself is missing."""
    epoch: int
    under: tuple[str, ...]
    """Whose words an answer may repeat."""
    recent: tuple[Turn, ...] = ()
    """The last turns of the conversation, as they were reported."""
    last_used: dict[str, int] = {}
    """When the last turn of each agent ended in this conversation."""
    interrupted: Turn | None = None
    """The last turn that did anything, if it was interrupted after tools had run, or may have."""

    @property
    def kept(self) -> tuple[Held, ...]:
        """The deliveries of the pinned session that are still valid."""
        return self.pin.held[: self.situation.cut.rows] if self.pin is not None else ()


class VoiceView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation from the point of view of one voice."""

    messages: tuple[Message, ...]
    """What it should know."""
    pin: Pin | None
    cut: Cut
    under: tuple[str, ...]
    bytes: int
    hidden: int
    spoke: bool
    broken: Said | None
    in_front: frozenset[str]
    """The unanswered messages on this side of the wall, including those from before a blank start."""

    @property
    def carried_only(self) -> bool:
        """All that comes before the new message was carried over from another account."""
        return all(each.kind == "carried" for each in self.messages[:-1])


class _Around(msgspec.Struct, frozen=True):
    """What does not depend on the conversation's messages."""

    file: File
    window: int | None
    busy: str | None


def gather(
    prepared: Prepared,
    store: Store,
    *,
    new: Message | None = None,
    busy: str | None = None,
    obstacles: Obstacles = NO_OBSTACLES,
) -> Gathered:
    """Gather the situation. ``new``: the message, for a turn that is only planned."""
    conversation, voice = prepared.conversation.id, prepared.voice
    seen = _voice_view(prepared, store, new)
    pin = seen.pin
    found = _look(prepared, pin)
    copy = _copy(prepared, store, pin) if found is None and obstacles.unrestored is None else None
    recent = store.turns(conversation, RECENT)
    file = _file(prepared, pin, found, copy, obstacles.unrestored)
    around = _Around(file, _window(recent, pin, voice), busy)
    return Gathered(
        situation=msgspec.structs.replace(
            _situation(prepared, store, seen, around, obstacles),
            limits=tuple(store.limits(voice.agent, prepared.account_name, prepared.login)),
            pays=pays_of(prepared),
            paid=paid_before(recent, prepared),
            moved=moved_from(prepared, pin),
        ),
        view=seen.messages,
        pin=pin,
        found=found,
        copy=copy,
        epoch=store.epochs(conversation).get(voice, 0),
        under=seen.under,
        recent=tuple(row.told for row in recent if row.told is not None),
        interrupted=_interrupted(recent, seen.in_front),
        last_used={row.voice.agent: row.ended_ms for row in recent if row.ended_ms is not None},
    )


def _situation(
    prepared: Prepared, store: Store, seen: VoiceView, around: _Around, obstacles: Obstacles
) -> Situation:
    voice, pin, facts = prepared.voice, _with_window(prepared, seen.pin), prepared.agent.facts
    return Situation(
        policy=_policy(prepared),
        flow=prepared.ask.briefing is not None,
        full=prepared.ask.briefing is not None,
        label=facts.label,
        failing_pairs=facts.failing_pairs,
        voice=voice,
        account=prepared.account_name,
        runtime=prepared.runtime,
        switched_off=store.switched_off(prepared.runtime.identity) | obstacles.closed,
        blank="--blank: nothing is carried over" if prepared.ask.blank else None,
        fresh_session=prepared.ask.fresh_session or not prepared.ask.save,
        pin=pin,
        lent=_lender(prepared, pin),
        spoke=seen.spoke,
        others=_others(store, prepared.conversation.id, voice) if pin is None else (),
        hidden=seen.hidden,
        broken=seen.broken,
        cut=seen.cut,
        view_messages=len(seen.messages),
        view_bytes=seen.bytes,
        new_bytes=seen.messages[-1].size,
        carried_only=seen.carried_only,
        too_long=obstacles.too_long,
        file=around.file,
        workdir=workdir_of(prepared.request.cwd),
        model=prepared.request.model,
        login=prepared.login,
        offers=_offers(prepared, pin),
        host=prepared.host,
        window=around.window,
        busy=around.busy,
        now_ms=clock.now_ms(),
        asked_ms=prepared.ask.briefing.asked_ms if prepared.ask.briefing is not None else 0,
    )


def _with_window(prepared: Prepared, pin: Pin | None) -> Pin | None:
    """The pin, with the configured window of its model if its CLI has not reported one."""
    model = (pin.model_used or pin.model) if pin is not None else None
    if pin is None or pin.context.window or model is None or not prepared.config.models:
        return pin
    from segue.core.prices import entry_for

    known = entry_for(model, prepared.config.models)
    window = known.window if known is not None else None
    return msgspec.structs.replace(pin, context=msgspec.structs.replace(pin.context, window=window))


def _policy(prepared: Prepared) -> Policy:
    """As configured. A role of a flow hears only what is meant for it, and its model stays the same."""
    policy, briefing = prepared.config.continuity, prepared.ask.briefing
    if briefing is None:
        return policy
    return msgspec.structs.replace(
        policy, history="own", on_model_change=briefing.on_model_change, ttl_minutes=briefing.ttl_minutes
    )


def _voice_view(prepared: Prepared, store: Store, new: Message | None) -> VoiceView:
    conversation = prepared.conversation.id
    voice, account, login = prepared.voice, prepared.account_name, prepared.login
    viewer = history.Viewer(voice, account, login, prepared.config.closed_to(account))
    scope, messages = _policy(prepared).history, store.messages(conversation)
    if new is not None:
        messages.append(new)
    visible = history.visible(messages, viewer)
    view = history.view(visible, voice, scope)
    pin = store.pin(conversation, voice, account, login)
    if pin is None and prepared.ask.briefing is not None:
        pin = _lent(prepared, store, prepared.ask.briefing.fork_of)
    parted = Cut(text=tuple(view))
    if pin is not None:
        parted = cut(HeldIndex(pin.held), ViewIndex(view), scope, ViewIndex(visible))
    return VoiceView(
        messages=tuple(view),
        pin=pin,
        cut=parted,
        under=history.under(visible, viewer),
        bytes=sum(message.size for message in view) + FRAME_BYTES * len(view),
        hidden=history.hidden(messages, viewer),
        spoke=pin is None and any(m.sender == "assistant" and m.voice == voice for m in view),
        broken=_broken(parted, messages),
        in_front=_unanswered(history.in_front(messages, viewer)),
    )


def _lender(prepared: Prepared, pin: Pin | None) -> str:
    """The role whose session it is, if it is not this one's own."""
    briefing = prepared.ask.briefing
    is_theirs = pin is not None and pin.foreign == prepared.conversation.key
    return briefing.fork_of if briefing is not None and is_theirs else ""


def _lent(prepared: Prepared, store: Store, role: str) -> Pin | None:
    """The session of another role, as the one to fork from."""
    if not role:
        return None
    theirs = Voice(prepared.voice.agent, role)
    found = store.pin(prepared.conversation.id, theirs, prepared.account_name, prepared.login)
    if found is None:
        return None
    return msgspec.structs.replace(found, voice=prepared.voice, foreign=prepared.conversation.key)


def continued_request(prepared: Prepared, pin: Pin) -> Request:
    """The request for a continued session: whether the agent can ask was decided when the session began."""
    asks = prepared.runtime.capabilities.questions and pin.questions is not False
    return msgspec.structs.replace(prepared.request, questions=asks)


def workdir_of(cwd: Path) -> Workdir:
    """The directory by identity: a symlink to a directory is that directory."""
    path = os.path.realpath(cwd)
    try:
        stat = os.stat(path)
    except OSError:
        return Workdir(path)
    return Workdir(path, stat.st_dev, stat.st_ino)


def _offers(prepared: Prepared, pin: Pin | None) -> tuple[str, ...] | None:
    """What determines the tools in a resume of this session; None if there is nothing to compare it with."""
    if pin is None or pin.offers is None:
        return None
    request = msgspec.structs.replace(
        continued_request(prepared, pin), prompt="?", start=Start("resume", pin.native_id), save=True
    )
    try:
        place = RunPlace(prepared.segue_home.runs / prepared.run, prepared.home)
        return prepared.agent.command(request, prepared.runtime, place).offers
    except Misuse:  # it is reported when the turn is planned, if it is a resume
        return None


def _look(prepared: Prepared, pin: Pin | None) -> StoredSession | None:
    sessions = prepared.agent.format
    if pin is None or sessions is None or not prepared.host.has(pin):
        return None
    return sessions.find(Path(pin.home), pin.native_id, prepared.request.cwd)


def _copy(prepared: Prepared, store: Store, pin: Pin | None) -> KeptRow | None:
    if pin is None or prepared.agent.format is None or not prepared.config.keep.enabled:
        return None
    return store.session_copy(pin.voice.agent, pin.account, pin.native_id)


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


def _broken(parted: Cut, messages: list[Message]) -> Said | None:
    """What happened to the first message that the session holds and the view does not."""
    if parted.broken is None:
        return None
    for n, message in enumerate(messages, 1):
        if message.id == parted.broken.message:
            if message.revision != parted.broken.revision:
                return say(f"#{n} was edited", "history.edited", number=n)
            return say(f"the session lacks a message before #{n}", "history.lacks", number=n)
    return say("a message that the session holds was dropped", "history.dropped")


def _interrupted(recent: Sequence[TurnRow], in_front: frozenset[str]) -> Turn | None:
    """The last turn that did anything, if it was interrupted. Turns that did nothing are skipped, and so are
    messages that the voice does not see."""
    for row in reversed(recent):
        turn = row.told
        if turn is None or row.state == "withdrawn" or row.message not in in_front:
            continue
        answered = turn.failure is None or row.answer is not None
        if answered or turn.tools_run != 0:
            return None if answered else turn
    return None


def _unanswered(messages: Sequence[Message]) -> frozenset[str]:
    """The messages after the last answer."""
    answered = [at for at, message in enumerate(messages, 1) if message.sender == "assistant"]
    return frozenset(message.id for message in messages[answered[-1] if answered else 0 :])


def _window(recent: Sequence[TurnRow], pin: Pin | None, voice: Voice) -> int | None:
    if pin is not None and pin.context.window:
        return pin.context.window
    for turn in reversed(recent):
        if turn.voice.agent == voice.agent and turn.told is not None and turn.told.context.window:
            return turn.told.context.window
    return None
