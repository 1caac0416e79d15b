"""What a conversation remembers, so that its second turn needs only the key."""

from __future__ import annotations

import msgspec

from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.asking import NONE as NONE
from segue.turns.asking import Ask

LOOKED_AT = 100
"""How many turns of an agent are looked through for what it was last run with in a role."""


class Remembered(msgspec.Struct, frozen=True):
    """Who answers: as asked, else as before."""

    agent: str | None = None
    account: str | None = None
    """An empty one: none, because that was said or was so before. None: as configured."""
    model: str | None = None
    role: str = ""


def remembered(ask: Ask, store: Store, known: Conversation | None) -> Remembered:
    """An account names its agent; an agent brings the account and the model it last had here."""
    role = _said(ask.role, known.role if known is not None else "") or ""
    if known is None:
        return Remembered(ask.agent, _account(ask.account), _said(ask.model), role)
    if ask.account not in (None, NONE) and ask.agent is None:
        same = ask.account == known.account
        return Remembered(None, ask.account, _said(ask.model, known.model if same else None), role)
    agent = ask.agent or known.agent or None
    account, model = _last_of(agent, role, store, known)
    return Remembered(agent, _account(ask.account, account), _said(ask.model, model), role)


def _said(now: str | None, before: str | None = None) -> str | None:
    """What was said now, else before; ``none`` takes back what was said before."""
    wanted = before if now is None else now
    return None if now == NONE else wanted


def _account(now: str | None, before: str | None = None) -> str | None:
    """That there was no account is remembered like any other: a default that is set later changes nothing."""
    return "" if now == NONE else before if now is None else now


def _last_of(
    agent: str | None, role: str, store: Store, known: Conversation
) -> tuple[str | None, str | None]:
    """The account and model with which this agent last ran here, in the same role if it had it before."""
    if (agent, role) == (known.agent, known.role):
        return known.account, known.model
    turns = store.turns_of(known.id, agent or "", LOOKED_AT)
    same = [turn for turn in turns if turn.voice.role == role] or turns
    return (same[-1].account, same[-1].model) if same else (None, None)
