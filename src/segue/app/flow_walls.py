"""The wall between the accounts of a flow: looked at before anybody works.

Naming two accounts of one agent for a flow is the consent to carry words from one to the other. It is
recorded with the flow, once for each direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from segue.app.workspace import Workspace
from segue.config.load import load
from segue.core.errors import Forbidden
from segue.core.laws import Consent
from segue.core.view import account_mark
from segue.store.carries import CarryRow
from segue.turns.agent_choice import resolve_agent
from segue.turns.gate import may_send
from segue.turns.marks import carried_by_flow
from segue.turns.prepare import login_under
from segue.turns.request import NONE


class Part(msgspec.Struct, frozen=True):
    """Who takes part in a flow. ``name``: as the user calls it, such as ``the coder``."""

    name: str
    mark: str


class Passage(msgspec.Struct, frozen=True):
    """Words of one part that reach another one, and who wants that."""

    source: Part
    target: Part
    consent: Consent


def mark_of(at: Workspace, agent: str | None, account: str | None, cwd: Path | None = None) -> str:
    """The agent, account and login of a turn with these options."""
    where = cwd or at.cwd
    config = load(at.env, where) if cwd is not None else at.config
    named = "" if account == NONE else account
    found, name, chosen = resolve_agent(agent, named, config, at.env, where)
    login = login_under(found, name or "", chosen, at.env, at.store)
    return account_mark(found.facts.name, name or "", login)


def refuse_forbidden(at: Workspace, cwd: Path, passages: Iterable[Passage], way: str = "") -> None:
    """Raise ``Forbidden`` if words would pass that must not. ``way``: what to do if nobody has asked for
    it."""
    config = load(at.env, cwd)
    for each in passages:
        refused = may_send(config, (each.source.mark,), each.target.mark, each.consent)
        if refused is None:
            continue
        is_rule = may_send(config, (each.source.mark,), each.target.mark, "user") is not None
        how = refused.way if is_rule or not way else way
        raise Forbidden(f"{each.source.name} and {each.target.name}: {refused.message}; {how}")


def carried(conversation: str, passages: Sequence[Passage]) -> tuple[CarryRow, ...]:
    """What the audit says about the flow. ``conversation``: the key of the conversation of its turns."""
    found: dict[tuple[str, str, str, str], CarryRow] = {}
    for each in passages:
        for row in carried_by_flow(conversation, (each.source.mark,), each.target.mark, each.consent):
            way = (row.from_agent, row.from_account, row.to_agent, row.to_account)
            found.setdefault(way, row)
    return tuple(found.values())
