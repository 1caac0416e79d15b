"""Binds a conversation to another account, and carries over what the user wants carried over.

The old session is read before anything is changed. Whatever goes wrong with it, the switch is done: then
nothing is carried over, and the record says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from segue.accounts import carry
from segue.accounts.carry import NothingCarried, OldSide
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.carried_block import CarriedBlock, summary_block
from segue.core.errors import Conflict, Misuse
from segue.core.model import Host, Message, Voice
from segue.core.view import Viewer, account_mark, hidden
from segue.store.carries import CarryMode, CarryRow, MovedRun
from segue.store.records import Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.agent_choice import resolve_agent
from segue.turns.gate import may_send
from segue.turns.left_session import refused_carry
from segue.turns.marks import message_marks
from segue.turns.prepare import login_under
from segue.turns.request import NONE, QueuedRequest


class SwitchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``account``: its name; empty: the agent's usual login. ``asked_by``: as in ``CarryRow``."""

    account: str
    carry: CarryMode = "none"
    queued: Literal["keep", "move"] | None = None
    """What becomes of runs that wait; None: the switch is refused if there are any."""
    asked_by: str
    message: str | None = None
    """The message that the new account is to answer, if it has its place already."""


class Switched(msgspec.Struct, frozen=True, kw_only=True):
    """What a switch did. ``carried`` None: nothing should have been carried over."""

    agent: str
    account: str
    login: str
    carried: CarryRow | None = None
    hidden: int = 0
    """How many messages the new account is not shown."""
    forbidden: str = ""
    """Why a rule forbids to carry them over; empty: none does."""


class NewSide(msgspec.Struct, frozen=True, kw_only=True):
    """The account that the conversation moves to, and under which mark it will speak."""

    agent: Agent
    account: str
    mark: str
    login: str


class SwitchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A switch before it is done: what would be carried over, or why nothing would."""

    conversation: Conversation
    wanted: SwitchRequest
    new: NewSide
    old: OldSide | None
    block: CarriedBlock | None = None
    mode: CarryMode = "none"
    why: str = ""
    cost_usd: float | None = None
    """What a summary cost."""


def check_switch(
    store: Store, conversation: Conversation, config: Config, env: Mapping[str, str], wanted: SwitchRequest
) -> NewSide:
    """The account that it would move to. Raises ``Misuse`` if there is none, or if a rule forbids the carry;
    ``Conflict`` if runs wait. Nothing is changed, so that it can be asked before anything is ended."""
    new = _new(store, conversation, config, env, wanted)
    _check_line(store, conversation, wanted)
    if wanted.carry != "none":
        with suppress(NothingCarried):
            _check_rules(config, _old(store, conversation, config, new, wanted), new)
    return new


def plan_switch(
    store: Store,
    conversation: Conversation,
    config: Config,
    env: Mapping[str, str],
    host: Host,
    wanted: SwitchRequest,
) -> SwitchPlan:
    """Read the old session. Raises ``Misuse`` if a rule forbids the carry, ``Conflict`` if runs wait."""
    new = check_switch(store, conversation, config, env, wanted)
    plan = SwitchPlan(conversation=conversation, wanted=wanted, new=new, old=None)
    if wanted.carry == "none":
        return plan
    try:
        old = _old(store, conversation, config, new, wanted)
        plan = msgspec.structs.replace(plan, old=old)
        _refuse_repetition(store, conversation, old, new)
        block = _block(store, conversation, config, host, old, new)
    except NothingCarried as nothing:
        return msgspec.structs.replace(plan, why=str(nothing))
    return msgspec.structs.replace(plan, block=block, mode="raw")


def with_summary(plan: SwitchPlan, text: str, cost_usd: float | None, max_bytes: int) -> SwitchPlan:
    """The plan with a summary instead of the turns themselves; if it is too long, with the turns."""
    assert plan.block is not None
    block = summary_block(text, plan.block, max_bytes, quiet_at=plan.new.agent.facts.expands_at)
    if block is None:
        return without_summary(plan, "the summary is too long, or empty", cost_usd)
    return msgspec.structs.replace(plan, block=block, mode="summary", cost_usd=cost_usd)


def without_summary(plan: SwitchPlan, why: str, cost_usd: float | None = None) -> SwitchPlan:
    """The plan with the turns themselves, because there is no summary."""
    return msgspec.structs.replace(plan, why=f"not summarised: {why}", cost_usd=cost_usd)


def switch(store: Store, config: Config, plan: SwitchPlan) -> Switched:
    """Do it. Call this while the conversation is held for a change."""
    conversation, new, block, now_ms = plan.conversation, plan.new, plan.block, clock.now_ms()
    message = _message(plan, block) if block is not None else None
    row = _row(plan, message, now_ms) if plan.wanted.carry != "none" else None
    said = (message, block.text) if message is not None and block is not None else None
    moved = _moved(store, conversation, new, plan.wanted)
    to = (new.agent.facts.name, new.account)
    store.carries.switch(conversation, to, said, row, moved, now_ms, before=plan.wanted.message)
    stored = store.conversation_by_id(conversation.id) or conversation
    hidden = _hidden(store, conversation, config, new)
    asks = row is None and hidden > 0
    refused = refused_carry(store, stored, config, (*to, new.login)) if asks else None
    return Switched(
        agent=new.agent.facts.name,
        account=new.account,
        login=new.login,
        carried=row,
        hidden=hidden,
        forbidden=refused.message if refused is not None else "",
    )


def _new(
    store: Store,
    conversation: Conversation,
    config: Config,
    env: Mapping[str, str],
    wanted: SwitchRequest,
) -> NewSide:
    agent = None if wanted.account else conversation.agent or None
    found, name, account = resolve_agent(agent, wanted.account, config, env, Path(conversation.cwd or "/"))
    login = login_under(found, name or "", account, env, store)
    mark = account_mark(found.facts.name, name or "", login)
    return NewSide(agent=found, account=name or "", mark=mark, login=login)


def _old(
    store: Store, conversation: Conversation, config: Config, new: NewSide, wanted: SwitchRequest
) -> OldSide:
    to = (new.agent.facts.name, new.account, new.login)
    return carry.old_side(store, conversation, config, to, wanted.message)


def _check_line(store: Store, conversation: Conversation, wanted: SwitchRequest) -> None:
    waiting = len(store.line(conversation.id))
    if waiting and wanted.queued is None:
        runs = "1 run waits" if waiting == 1 else f"{waiting} runs wait"
        what = "it stays there or moves" if waiting == 1 else "they stay there or move"
        how = '--queued keep or --queued move; in a request, "queued"'
        raise Conflict(f"{runs} for the old account: say whether {what} ({how})")


def _moved(
    store: Store, conversation: Conversation, new: NewSide, wanted: SwitchRequest
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
            under=message_marks(new.mark, ask.given),
            blank=ask.blank,
        )
        moved.append(MovedRun(row.id, text, message))
    return tuple(moved)


def _check_rules(config: Config, old: OldSide, new: NewSide) -> None:
    refused = may_send(config, old.marks, new.mark, "user")
    if refused is not None:
        raise Misuse(f"{refused.message} ([carry] in config.toml); without --carry, the switch is possible")


def _refuse_repetition(store: Store, conversation: Conversation, old: OldSide, new: NewSide) -> None:
    """Raises ``NothingCarried`` if the new account has had a block since the old session was last used."""
    standing = {each.id for each in store.messages(conversation.id)}
    for row in store.carries.carries(conversation.key):
        source, target = (row.from_agent, row.from_account), (row.to_agent, row.to_account)
        same = source == (old.pin.voice.agent, old.pin.account)
        if same and target == (new.agent.facts.name, new.account) and row.message in standing:
            if row.at_ms >= old.pin.succeeded_ms:
                raise NothingCarried("it was carried over before, and nothing was said since")
            return


def _block(
    store: Store, conversation: Conversation, config: Config, host: Host, old: OldSide, new: NewSide
) -> CarriedBlock:
    """What is carried over. Raises ``NothingCarried``."""
    if old.pin.voice.agent != new.agent.facts.name:
        raise NothingCarried(f"{new.agent.facts.label} is shown the conversation anyway: it is another agent")
    cwd, limit, quiet_at = Path(conversation.cwd), config.carry.max_bytes, new.agent.facts.expands_at
    try:
        return carry.read_block(store, old, cwd, host, limit, quiet_at=quiet_at)
    except NothingCarried:
        raise
    except Exception as error:  # a foreign file must not keep anybody from switching
        raise NothingCarried(f"its session cannot be read: {error!r}") from error


def _message(plan: SwitchPlan, block: CarriedBlock) -> Message:
    new, marks = plan.new, carry.carried_marks(plan.old.marks) if plan.old is not None else ()
    return Message(
        id=clock.new_id(),
        sender="user",
        voice=Voice(new.agent.facts.name, plan.conversation.role),
        account=new.account,
        under=tuple(sorted({new.mark, *marks})),
        kind="carried",
        size=block.bytes,
    )


def _row(plan: SwitchPlan, message: Message | None, now_ms: int) -> CarryRow:
    block, pin = plan.block, plan.old.pin if plan.old is not None else None
    return CarryRow(
        id=clock.new_id(now_ms),
        conversation=plan.conversation.key,
        at_ms=now_ms,
        from_agent=pin.voice.agent if pin is not None else plan.conversation.agent,
        from_account=pin.account if pin is not None else plan.conversation.account,
        to_agent=plan.new.agent.facts.name,
        to_account=plan.new.account,
        mode=plan.mode,
        bytes=block.bytes if block is not None else 0,
        turns=block.turns if block is not None else 0,
        omitted=block.omitted if block is not None else False,
        asked_by=plan.wanted.asked_by,
        cost_usd=plan.cost_usd,
        message=message.id if message is not None else None,
        why=plan.why,
        left_out=block.left_out if block is not None else 0,
    )


def _hidden(store: Store, conversation: Conversation, config: Config, new: NewSide) -> int:
    voice = Voice(new.agent.facts.name, conversation.role)
    messages = store.messages(conversation.id)
    return hidden(messages, Viewer(voice, new.account, new.login, config.closed_to(new.account)))
