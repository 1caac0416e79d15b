"""Binds a conversation to another account, and carries over what the user wants carried over.

The old session is read before anything is changed. Whatever goes wrong with it, the switch is done: then
nothing is carried over, and the record says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from segue.accounts import carry
from segue.accounts.carry import NothingCarried, OldSide
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.carried_block import CarriedBlock
from segue.core.errors import Conflict, Misuse
from segue.core.model import Host, Message, Voice
from segue.core.view import account_mark
from segue.store.carries import CarryMode, CarryRow, MovedRun
from segue.store.records import Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.agent_choice import resolve_agent
from segue.turns.prepare import login_under
from segue.turns.request import NONE, QueuedRequest

LOCAL = "command line"


class SwitchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``account``: its name; empty: the agent's usual login. ``asked_by``: as in ``CarryRow``."""

    account: str
    agent: str | None = None
    carry: CarryMode = "none"
    queued: Literal["keep", "move"] | None = None
    """What becomes of runs that wait; None: the switch is refused if there are any."""
    asked_by: str = LOCAL


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """What a switch did. ``carried`` None: nothing should have been carried over."""

    agent: str
    account: str
    login: str
    carried: CarryRow | None = None
    hidden: int = 0
    """How many messages the new account is not shown."""


class _New(msgspec.Struct, frozen=True, kw_only=True):
    agent: Agent
    account: str
    mark: str
    login: str


def switch(
    store: Store,
    conversation: Conversation,
    config: Config,
    env: Mapping[str, str],
    host: Host,
    wanted: SwitchRequest,
) -> Switched:
    """Call it while the conversation is held for a change. Raises ``Misuse`` if a rule forbids the carry."""
    new, now_ms = _new(conversation, config, env, wanted), clock.now_ms()
    _check_line(store, conversation, wanted)
    old = _old(store, conversation, config, new)
    if wanted.carry != "none" and isinstance(old, OldSide):
        _check_rules(config, old, new)
    block, why = _block(store, conversation, config, host, old, new, wanted)
    message = _message(conversation, new, old, block) if block is not None else None
    row = (
        _row(conversation, old, new, wanted, block, message, why, now_ms) if wanted.carry != "none" else None
    )
    said = (message, block.text) if message is not None and block is not None else None
    to = (new.agent.facts.name, new.account)
    store.carries.switch(conversation, to, said, row, _moved(store, conversation, new, wanted), now_ms)
    hidden = _hidden(store, conversation, config, new)
    return Switched(
        agent=new.agent.facts.name, account=new.account, login=new.login, carried=row, hidden=hidden
    )


def _new(conversation: Conversation, config: Config, env: Mapping[str, str], wanted: SwitchRequest) -> _New:
    agent = wanted.agent or (None if wanted.account else conversation.agent or None)
    found, name, account = resolve_agent(agent, wanted.account, config, env)
    login = login_under(found, account, env)
    mark = account_mark(found.facts.name, name or "", login)
    return _New(agent=found, account=name or "", mark=mark, login=login)


def _old(store: Store, conversation: Conversation, config: Config, new: _New) -> OldSide | NothingCarried:
    try:
        return carry.old_side(store, conversation, config, (new.agent.facts.name, new.account, new.login))
    except NothingCarried as nothing:
        return nothing
    except Misuse as error:  # its agent is no longer configured
        return NothingCarried(str(error))


def _check_line(store: Store, conversation: Conversation, wanted: SwitchRequest) -> None:
    waiting = len(store.line(conversation.id))
    if waiting and wanted.queued is None:
        runs = "1 run waits" if waiting == 1 else f"{waiting} runs wait"
        raise Conflict(f"{runs} for the old account: say --queued keep or --queued move")


def _moved(
    store: Store, conversation: Conversation, new: _New, wanted: SwitchRequest
) -> tuple[MovedRun, ...]:
    """The runs that wait, under the new account."""
    if wanted.queued != "move":
        return ()
    moved = []
    who = {"agent": new.agent.facts.name, "account": new.account or NONE, "model": NONE}
    for row in store.line(conversation.id):
        request = msgspec.json.decode(row.request or "", type=QueuedRequest)
        ask = msgspec.structs.replace(request.ask, **who)
        text = msgspec.json.encode(msgspec.structs.replace(request, ask=ask)).decode()
        role = "" if ask.role in (None, NONE) else ask.role or ""
        message = Message(
            id=row.message,
            sender="user",
            voice=Voice(new.agent.facts.name, role),
            account=new.account,
            under=(new.mark,),
            blank=ask.blank,
        )
        moved.append(MovedRun(row.id, text, message))
    return tuple(moved)


def _check_rules(config: Config, old: OldSide, new: _New) -> None:
    forbidden = carry.forbidden(config, old.marks, new.account)
    if forbidden is not None:
        raise Misuse(f"{forbidden} ([carry] in config.toml); without --carry, the switch is possible")


def _block(
    store: Store,
    conversation: Conversation,
    config: Config,
    host: Host,
    old: OldSide | NothingCarried,
    new: _New,
    wanted: SwitchRequest,
) -> tuple[CarriedBlock | None, str]:
    """What is carried over; or nothing, and the reason."""
    if wanted.carry == "none":
        return None, ""
    if isinstance(old, NothingCarried):
        return None, str(old)
    if old.pin.voice.agent != new.agent.facts.name:
        return None, f"{new.agent.facts.label} is shown the conversation anyway: it is another agent"
    try:
        block = carry.read_block(
            store,
            old,
            Path(conversation.cwd),
            host,
            config.carry.max_bytes,
            quiet_at=new.agent.facts.expands_at,
        )
    except NothingCarried as nothing:
        return None, str(nothing)
    except Exception as error:
        return None, f"its session cannot be read: {error!r}"
    return block, ""


def _message(
    conversation: Conversation, new: _New, old: OldSide | NothingCarried, block: CarriedBlock
) -> Message:
    marks = carry.carried_marks(old.marks) if isinstance(old, OldSide) else ()
    return Message(
        id=clock.new_id(),
        sender="user",
        voice=Voice(new.agent.facts.name, conversation.role),
        account=new.account,
        under=tuple(sorted({new.mark, *marks})),
        kind="carried",
        size=block.bytes,
    )


def _row(
    conversation: Conversation,
    old: OldSide | NothingCarried,
    new: _New,
    wanted: SwitchRequest,
    block: CarriedBlock | None,
    message: Message | None,
    why: str,
    now_ms: int,
) -> CarryRow:
    left = (conversation.agent, conversation.account)
    if isinstance(old, OldSide):
        left = old.pin.voice.agent, old.pin.account
    return CarryRow(
        id=clock.new_id(now_ms),
        conversation=conversation.key,
        at_ms=now_ms,
        from_agent=left[0],
        from_account=left[1],
        to_agent=new.agent.facts.name,
        to_account=new.account,
        mode=wanted.carry if block is not None else "none",
        bytes=block.bytes if block is not None else 0,
        turns=block.turns if block is not None else 0,
        omitted=block.omitted if block is not None else False,
        asked_by=wanted.asked_by,
        message=message.id if message is not None else None,
        why=why,
    )


def _hidden(store: Store, conversation: Conversation, config: Config, new: _New) -> int:
    from segue.core.view import hidden

    voice = Voice(new.agent.facts.name, conversation.role)
    messages = store.messages(conversation.id)
    return hidden(messages, voice, new.account, new.login, config.closed_to(new.account))
