"""Reads what is carried over to another account: the last turns of the conversation's old session.

Exactly the session that the conversation continues under the old account is read. It counts only up to the
last place that still holds, and only turns that still stand in the conversation are taken: what the user
edited or dropped is left out. What the session was given as text (by a replay, or carried over from a third
account) is taken from the store, and so is what the session does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from segue.accounts.old_session import OldSession, read_session
from segue.agents import registry
from segue.agents.base import Agent, SessionArchive, StoredSession
from segue.config.schema import Config
from segue.core import view as history
from segue.core.carried_block import CarriedBlock, SaidBefore, make_block, turns_of_block
from segue.core.cut import HeldIndex, ViewIndex, cut
from segue.core.errors import Misuse
from segue.core.model import Held, Host, Message, Pin, Voice
from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.left_session import left_pin, pin_viewer
from segue.turns.texts import unanswered_notes


class NothingCarried(Exception):  # noqa: N818 - it is an answer
    """Why nothing can be carried over, in words."""


class Delivery(msgspec.Struct, frozen=True):
    """What one prompt brought into the session, and the answer to it. ``anchor``: where that ends."""

    messages: tuple[Message, ...]
    anchor: str = ""


class OldSide(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation under the account that it leaves."""

    pin: Pin
    agent: Agent
    kept: tuple[Delivery, ...]
    """What the session's file has and still holds."""
    standing: tuple[Message, ...]
    """The messages of the view that the file does not have, or has otherwise."""
    known: frozenset[str]
    """The messages that the new account is shown anyway, or has said itself."""
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
    messages = store.messages(conversation.id)
    theirs = _known(messages, conversation, config, to)
    pin = _old_pin(store, conversation, to, any(each.id not in theirs for each in messages))
    scope, viewer = config.continuity.history, pin_viewer(pin, config)
    visible = history.visible(messages, viewer)
    view = history.view(visible, pin.voice, scope)
    parted = cut(HeldIndex(pin.held), ViewIndex(view), scope, ViewIndex(visible))
    return OldSide(
        pin=pin,
        agent=_agent(pin.voice.agent, config),
        kept=_deliveries(pin.held[: parted.rows], {each.id: each for each in visible}),
        standing=tuple(each for each in parted.text if each.id != without),
        known=theirs,
        marks=history.under(visible, viewer),
    )


def _old_pin(store: Store, conversation: Conversation, to: tuple[str, str, str], is_more: bool) -> Pin:
    """The session to read. ``is_more``: there is something that the new account does not know."""
    found = left_pin(store.pins(conversation.id), conversation, to)
    if found is None and is_more:
        raise NothingCarried("no turn was completed under another account, so there is no session to read")
    if found is None:
        raise NothingCarried("nothing was said under another account")
    return store.pin(conversation.id, found.voice, found.account, found.login) or found


def _known(
    messages: list[Message], conversation: Conversation, config: Config, to: tuple[str, str, str]
) -> frozenset[str]:
    agent, account, login = to
    voice, closed = Voice(agent, conversation.role), config.closed_to(account)
    viewer = history.Viewer(voice, account, login, closed)
    seen = {each.id for each in history.in_front(messages, viewer)}
    own = history.consented(history.account_mark(*to))
    for each in messages:
        if each.kind == "carried" and {mark for mark in each.under if history.is_consented(mark)} == {own}:
            seen.add(each.id)
    return frozenset(seen)


def _deliveries(rows: Iterable[Held], messages: Mapping[str, Message]) -> tuple[Delivery, ...]:
    found: list[Delivery] = []
    gathered: list[Message] = []
    for row in rows:
        if row.correction:
            continue
        gathered.append(messages[row.message])
        if row.anchor is not None:
            found.append(Delivery(tuple(gathered), row.anchor))
            gathered = []
    return tuple(found)


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
        session = read_session(archive, stored, [each.anchor for each in old.kept])
    except OSError as error:
        raise NothingCarried(f"its session cannot be read: {error.strerror or error}") from None
    if not session.prompts and old.kept:
        raise NothingCarried("its session has no turn that can be read")
    said, more = _said(store, old, session, max_bytes)
    prompts = sum(each.sender == "user" for delivery in old.kept for each in delivery.messages)
    block = make_block(said, max_bytes, quiet_at=quiet_at, more=more or session.prompts > prompts > 0)
    if block is None and said:
        raise NothingCarried(f"its last turn cannot be shortened to {max_bytes:,} bytes")
    if block is None:
        raise NothingCarried("nothing was said in it that the new account does not know")
    return block


def _said(store: Store, old: OldSide, session: OldSession, max_bytes: int) -> tuple[list[SaidBefore], bool]:
    """What was said, newest first, as far back as can be needed, and whether there is more."""
    deliveries = [*old.kept, Delivery(old.standing)]
    order = [message for delivery in deliveries for message in delivery.messages]
    wanted, more = _newest([each for each in order if each.id not in old.known], max_bytes)
    texts = store.texts([each.id for each in wanted])
    answers = _answers(old.kept, session, texts)
    open_ = [each for at, each in enumerate(order) if _is_unanswered(order, at) and each.id in texts]
    notes = unanswered_notes(store, open_)
    said: list[SaidBefore] = []
    for each in reversed(wanted):
        if each.kind == "carried":
            turns, omitted = turns_of_block(texts[each.id])
            said, more = [*said, *reversed(turns)], more or omitted
        else:
            text = answers.get(each.id, texts[each.id])
            said.append(SaidBefore(each.sender, text, notes.get(each.id, "")))
    return said, more


def _newest(messages: list[Message], max_bytes: int) -> tuple[list[Message], bool]:
    """The last messages, back to where the first turn begins that cannot fit; and whether there are others
    before them."""
    size = 0
    for at in range(len(messages) - 1, -1, -1):
        size += messages[at].size
        if size > max_bytes and messages[at].sender == "user":
            return messages[at:], at > 0
    return messages, False


def _answers(kept: Iterable[Delivery], session: OldSession, texts: Mapping[str, str]) -> dict[str, str]:
    """The answers as they are in the session's file, with everything that the agent said on the way."""
    found: dict[str, str] = {}
    for delivery in kept:
        turn = session.turns.get(delivery.anchor)
        asked, answer = [*[None, None], *delivery.messages][-2:]
        if turn is None or asked is None or answer is None or answer.id not in texts:
            continue
        is_same = turn.words is not None and turn.words.strip() == texts.get(asked.id, "").strip()
        if is_same and turn.answer and (asked.sender, answer.sender) == ("user", "assistant"):
            found[answer.id] = turn.answer
    return found


def _is_unanswered(messages: list[Message], at: int) -> bool:
    """Whether no answer follows a message of the user."""
    follows = messages[at + 1].sender if at + 1 < len(messages) else "user"
    return messages[at].sender == "user" and messages[at].kind == "said" and follows == "user"


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


def carried_marks(marks: Iterable[str]) -> tuple[str, ...]:
    """The same marks as those of words that were carried over with consent."""
    return tuple(sorted(map(history.consented, marks)))
