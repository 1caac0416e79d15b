"""Gathers the situation of a turn: what the store knows, what stands on disk, what was asked."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from segue.agents.base import Found
from segue.config.schema import Config
from segue.core import history
from segue.core.held import Cut, Embodied, Seen, cut
from segue.core.model import Held, Message, Pin, Voice, Workdir
from segue.core.policy import Policy
from segue.core.situation import File, Situation
from segue.core.turn import Turn
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.turns.prepared import Prepared

FRAME_BYTES = 24
"""What a message carried as text has around it, about."""
RECENT = 20
"""So many turns are looked back on."""


class Surveyed(msgspec.Struct, frozen=True, kw_only=True):
    """The situation, and the things behind it that the rest of the turn needs."""

    situation: Situation
    view: tuple[Message, ...]
    visible: tuple[Message, ...]
    """All on this side of the account's wall, whether it is told again or not."""
    pin: Pin | None
    found: Found | None
    epoch: int
    recent: tuple[Turn, ...] = ()
    """The last turns of the conversation, as they were told."""
    last_used: dict[str, int] = {}
    """When each agent last ended a turn here."""

    @property
    def kept(self) -> tuple[Held, ...]:
        """The deliveries of the pinned session that still hold."""
        return self.pin.held[: self.situation.cut.rows] if self.pin is not None else ()


def survey(
    prepared: Prepared,
    store: Store,
    conversation: str,
    *,
    new: Message | None = None,
    busy: str | None = None,
    switched_off: dict[str, str] | None = None,
) -> Surveyed:
    """``new``: the message as it would be, for a turn that is only thought of."""
    voice, account, policy = prepared.voice, prepared.account_name, policy_of(prepared.config)
    messages = store.messages(conversation)
    if new is not None:
        messages.append(new)
    visible = history.visible(messages, voice, account)
    view = history.view(visible, voice, policy.history)
    pin = store.pin(conversation, voice, account)
    parted = (
        cut(Embodied(pin.held), Seen(view), policy.history, Seen(visible)) if pin else Cut(text=tuple(view))
    )
    found = _look(prepared, pin)
    recent = store.turns(conversation, RECENT)
    situation = Situation(
        policy=policy,
        label=prepared.agent.label,
        voice=voice,
        account=account,
        runtime=prepared.runtime,
        switched_off=store.switched_off(prepared.runtime.identity) | (switched_off or {}),
        blank="nothing shall be carried over (--blank)" if prepared.ask.blank else None,
        fresh_session=prepared.ask.fresh_session or not prepared.ask.save,
        pin=pin,
        spoke=pin is None and any(m.sender == "assistant" and m.voice == voice for m in view),
        others=_others(store, conversation, voice),
        hidden=history.hidden(messages, voice, account),
        broken=_broken(parted, messages),
        cut=parted,
        view_messages=len(view),
        view_bytes=sum(message.size + FRAME_BYTES for message in view),
        new_bytes=view[-1].size,
        file=_file(prepared, pin, found),
        workdir=workdir_of(prepared.request.cwd),
        model=prepared.request.model,
        login=prepared.login,
        host=prepared.host,
        window=_window(recent, pin, voice),
        busy=busy,
        now_ms=time.time_ns() // 1_000_000,
    )
    return Surveyed(
        situation=situation,
        view=tuple(view),
        visible=tuple(visible),
        pin=pin,
        found=found,
        epoch=store.epochs(conversation).get(voice, 0),
        recent=tuple(row.told for row in recent if row.told is not None),
        last_used={row.voice.agent: row.ended_ms or 0 for row in recent},
    )


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


def _look(prepared: Prepared, pin: Pin | None) -> Found | None:
    sessions = prepared.agent.sessions
    if pin is None or sessions is None or pin.host != prepared.host:
        return None
    return sessions.look(Path(pin.home), pin.native_id, prepared.request.cwd)


def _file(prepared: Prepared, pin: Pin | None, found: Found | None) -> File:
    if pin is None or prepared.agent.sessions is None or pin.host != prepared.host:
        return File()
    return File(True, found.size, found.end) if found is not None else File(False)


def _others(store: Store, conversation: str, voice: Voice) -> tuple[str, ...]:
    return tuple(
        f"{pin.voice.agent} ({pin.voice.role})" if pin.voice.role else pin.voice.agent
        for pin in store.pins(conversation)
        if pin.voice != voice
    )


def _broken(parted: Cut, messages: list[Message]) -> str:
    """In words: what became of the first message that the session holds and the view does not."""
    if parted.broken is None:
        return ""
    for n, message in enumerate(messages, 1):
        if message.id == parted.broken.message:
            changed = message.revision != parted.broken.revision
            return f"#{n} was edited" if changed else f"something was said before #{n} that it does not hold"
    return "a message that the session holds was dropped"


def _window(recent: Sequence[TurnRow], pin: Pin | None, voice: Voice) -> int | None:
    if pin is not None and pin.context.window:
        return pin.context.window
    for turn in reversed(recent):
        if turn.voice.agent == voice.agent and turn.told is not None and turn.told.context.window:
            return turn.told.context.window
    return None
