"""Reads what is carried over to another account: the last turns of the conversation's old session.

Exactly the session that the conversation continues under the old account is read, from its end. What the user
edited or dropped is left out: the session's file counts only up to the last place that still holds, and what
stands after it is taken from the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.agents.base import Agent, SessionArchive, StoredSession, entries_of
from segue.config.schema import STRICTNESS, CarryRule, Config
from segue.core import view as history
from segue.core.carried_block import CarriedBlock, SaidBefore, make_block
from segue.core.cut import HeldIndex, ViewIndex, cut
from segue.core.errors import Misuse
from segue.core.model import Host, Message, Pin, Sender
from segue.sessions.reading import own_words, session_dialogue
from segue.store.records import Conversation
from segue.store.store import Store

LEAST = 4
"""How many messages are kept whatever their size: the last turn, and enough to know that there were more."""


class NothingCarried(Exception):  # noqa: N818 - it is an answer
    """Why nothing can be carried over, in words."""


class OldSide(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation under the account that it leaves."""

    pin: Pin
    agent: Agent
    standing: tuple[Message, ...]
    """The messages of the view that the session's file does not have, or has otherwise."""
    anchor: str | None
    """Where the file stops being valid; None: nothing of it is."""
    marks: tuple[str, ...]
    """Whose words may be in it."""


def old_side(
    store: Store,
    conversation: Conversation,
    config: Config,
    to: tuple[str, str, str],
    without: str | None = None,
) -> OldSide:
    """What the conversation has under the account that it leaves. If it was moved ``to`` the new one (agent,
    account and login) before, without being carried over: under the last other account. ``without``: a
    message that the new account gets anyway. Raises ``NothingCarried``."""
    pins = [pin for pin in store.pins(conversation.id) if (pin.voice.agent, pin.account, pin.login) != to]
    if not pins:
        raise NothingCarried("no session was begun under another account")

    def nearness(pin: Pin) -> tuple[bool, bool, bool, int]:
        left = (pin.voice.agent, pin.account) == (conversation.agent, conversation.account)
        return pin.voice.agent == to[0], left, pin.voice.role == conversation.role, pin.succeeded_ms

    found = max(pins, key=nearness)
    pin = store.pin(conversation.id, found.voice, found.account, found.login) or found
    scope, login = config.continuity.history, pin.login or history.UNKNOWN
    visible = history.visible(
        store.messages(conversation.id), pin.voice, pin.account, login, config.closed_to(pin.account)
    )
    view = history.view(visible, pin.voice, scope)
    parted = cut(HeldIndex(pin.held), ViewIndex(view), scope, ViewIndex(visible))
    return OldSide(
        pin=pin,
        agent=_agent(pin.voice.agent, config),
        standing=tuple(each for each in parted.text if each.id != without),
        anchor=parted.anchor,
        marks=history.under(view, pin.voice.agent, pin.account, login),
    )


def _agent(name: str, config: Config) -> Agent:
    try:
        return registry.get(name, config)
    except Misuse as error:  # it is no longer configured
        raise NothingCarried(str(error)) from None


def read_block(
    store: Store, old: OldSide, cwd: Path, host: Host, max_bytes: int, *, quiet_at: bool
) -> CarriedBlock:
    """The block for the new account. Raises ``NothingCarried``."""
    stored, archive = _file(old, cwd, host)
    try:
        in_file = _from_file(archive, stored, old.anchor, max_bytes) if old.anchor is not None else ()
        said = [*_from_store(store, old.standing), *in_file]
    except OSError as error:
        raise NothingCarried(f"its session cannot be read: {error.strerror or error}") from None
    block = make_block(said, max_bytes, quiet_at=quiet_at)
    if block is None and said:
        raise NothingCarried(f"its last turn alone is over the limit of {max_bytes:,} bytes")
    if block is None:
        raise NothingCarried("its session has no turn that can be read")
    return block


def _file(old: OldSide, cwd: Path, host: Host) -> tuple[StoredSession, SessionArchive]:
    session_format, archive = old.agent.format, old.agent.archive()
    if session_format is None or archive is None:
        raise NothingCarried(f"Segue cannot read the sessions of {old.agent.facts.label}")
    if not host.has(old.pin):
        raise NothingCarried(f"its session is on {old.pin.host}")
    stored = session_format.find(Path(old.pin.home), old.pin.native_id, cwd)
    if stored is None:
        raise NothingCarried("its session's file is gone")
    return stored, archive


def _from_store(store: Store, standing: Iterable[Message]) -> Iterator[SaidBefore]:
    messages = [each for each in standing if each.kind == "said"]
    texts = store.texts([each.id for each in messages])
    for message in reversed(messages):
        yield SaidBefore(message.sender, texts[message.id])


def _from_file(
    archive: SessionArchive, stored: StoredSession, anchor: str, max_bytes: int
) -> Iterable[SaidBefore]:
    """What was said up to the last place that still holds, newest first, as far back as can be needed."""
    after = archive.after(anchor)
    before = (entry for entry in entries_of(archive, stored) if not after(entry))
    kept: deque[SaidBefore] = deque()
    size = 0
    for message in session_dialogue(before):
        sender: Sender = "user" if message.sender == "user" else "assistant"
        said = SaidBefore(sender, own_words(message))
        kept.append(said)
        size += len(said.text)
        while len(kept) > LEAST and size - len(kept[0].text) > max_bytes:
            size -= len(kept.popleft().text)
    if not after.found:
        raise NothingCarried("its session's file does not contain what Segue left there")
    return reversed(kept)


def carried_marks(marks: Iterable[str]) -> tuple[str, ...]:
    """The same marks as those of words that were carried over with consent."""
    return tuple(sorted(map(history.consented, marks)))


def strictest(config: Config, marks: Iterable[str], target: str) -> CarryRule:
    """The strictest rule for these words."""
    rules = [config.carry_rule(history.account_of(mark), target) for mark in marks]
    return max(rules, key=STRICTNESS.index, default="allow")


def forbidden(config: Config, marks: Iterable[str], target: str) -> str | None:
    """Why these words must not reach the account; None: they may."""
    for source in sorted({history.account_of(mark) for mark in marks}):
        if config.carry_rule(source, target) == "never":
            names = [name or "no account" for name in (source, target)]
            return "what was said under {} is never carried over to {}".format(*names)
    return None
