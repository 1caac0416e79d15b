"""What a conversation remembers, so that its second turn needs only the key."""

from __future__ import annotations

import msgspec

from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.asking import Ask

NONE = "none"
"""``--role none``: no role, although the conversation remembers one."""
LOOKED_AT = 100
"""How many turns are looked through for what an agent was last run with."""


class Remembered(msgspec.Struct, frozen=True):
    """Who answers: as asked, else as before."""

    agent: str | None = None
    account: str | None = None
    model: str | None = None
    role: str = ""


def remembered(ask: Ask, store: Store, known: Conversation | None) -> Remembered:
    role = ask.role if ask.role is not None else known.role if known is not None else ""
    role = "" if role == NONE else role
    if known is None:
        return Remembered(ask.agent, ask.account, ask.model, role)
    if ask.account is not None and ask.agent is None:
        same = ask.account == known.account
        return Remembered(None, ask.account, ask.model or (known.model if same else None), role)
    agent = ask.agent or known.agent or None
    account, model = _last_of(agent, store, known)
    if ask.account is not None:
        account = ask.account
    return Remembered(agent, account, ask.model or model, role)


def _last_of(agent: str | None, store: Store, known: Conversation) -> tuple[str | None, str | None]:
    """The account and model with which this agent last ran here."""
    if agent == known.agent:
        return known.account or None, known.model
    for turn in reversed(store.turns(known.id, LOOKED_AT)):
        if turn.voice.agent == agent:
            return turn.account or None, turn.model
    return None, None
