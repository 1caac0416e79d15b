"""Moves a message to another account, because its own has met a limit.

What was said before is carried over only if the user's rules allow that without asking.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from segue.accounts import carry
from segue.accounts.carry import NothingCarried
from segue.accounts.switch import Switched, SwitchRequest, plan_switch, switch
from segue.core.errors import Conflict, NotFound
from segue.core.laws import Door
from segue.core.turn import Turn
from segue.core.verdicts import Said, say
from segue.store.records import QUEUED, Conversation
from segue.store.store import Store
from segue.turns.gate import may_send
from segue.turns.prepare import Prepared, prepare, prepare_retry
from segue.turns.request import NONE

ASKED_BY: Literal["policy"] = "policy"


def prepare_under(prepared: Prepared, store: Store, failed: Turn, account: str) -> Prepared:
    """The same turn under another account of the same agent, with the same model."""
    again, row, park = prepare_retry(prepared, store, failed), store.turn(failed.run), prepared.ask.park
    if park is None and row is not None and row.via == QUEUED:
        park = prepared.config.on_limit(account) != "fail"
    ask = msgspec.structs.replace(
        again.ask,
        agent=prepared.agent.facts.name,
        account=account,
        model=prepared.model or NONE,
        role=prepared.role or NONE,
        cwd=str(prepared.request.cwd),
        park=park,
        fixed=None,
        door=Door.FAILOVER,
        consent=ASKED_BY,
    )
    under = prepare(ask, prepared.env, store, Path(ask.here))
    limited = (*prepared.limited, prepared.account_name)
    return msgspec.structs.replace(under, transport=prepared.transport, limited=limited)


def bind(store: Store, old: Prepared, new: Prepared, failed: Turn) -> tuple[Conversation, Said]:
    """Bind the conversation to the new account. Returns it, and what happened. Call this while the
    conversation is held for a change. Raises ``Conflict`` if something was said since the turn failed."""
    conversation = store.conversation_by_id(new.conversation.id)
    if conversation is None:
        raise NotFound("the conversation was deleted")
    last = store.messages(conversation.id)[-1:]
    if [each.id for each in last] != [failed.message]:
        raise Conflict(f"something was said in {conversation.key} since")
    wanted = SwitchRequest(
        account=new.account_name,
        carry="raw" if _may_carry(store, conversation, new, failed) else "none",
        queued="keep",
        asked_by=ASKED_BY,
        message=failed.message,
    )
    config = new.config
    plan = plan_switch(store, conversation, config, new.env, new.host, wanted)
    done = switch(store, config, plan)
    stored = store.conversation_by_id(conversation.id) or conversation
    return stored, _words(old, new, done)


def _may_carry(store: Store, conversation: Conversation, new: Prepared, failed: Turn) -> bool:
    """Whether everything that would be carried over may be, without asking."""
    to = (new.agent.facts.name, new.account_name, new.login)
    try:
        old = carry.old_side(store, conversation, new.config, to, failed.message)
    except NothingCarried:
        return False
    return may_send(new.config, old.marks, new.mark, "policy") is None


def _words(old: Prepared, new: Prepared, done: Switched) -> Said:
    now, label, row = new.account_name, old.agent.facts.label, done.carried
    limited = f"the account {old.account}" if old.account else f"{label}'s own login"
    text = f"{limited} reached its limit; {now} answers instead"
    if old.account:
        said = say(text, "notice.switched", before=old.account, now=now)
    else:
        said = say(text, "notice.switched_login", agent=label, now=now)
    if row is None:
        return said
    if row.mode == "none":
        return said + say(f"; nothing is carried over: {row.why}", "notice.not_carried", why=row.why)
    turns = "1 turn" if row.turns == 1 else f"{row.turns} turns"
    said += say(f", with {turns} carried over", "notice.carried", count=row.turns)
    if not row.left_out:
        return said
    lost = f"; {row.left_out:,} bytes of the last turn are left out, because it is too long"
    return said + say(lost, "notice.carried_cut", bytes=row.left_out)
