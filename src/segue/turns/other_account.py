"""Which account takes a message whose own account has met a limit, if the configuration says so."""

from __future__ import annotations

from collections.abc import Collection

from segue.config.schema import AccountOrder
from segue.core.limits import next_reset, share_used, used_up
from segue.core.turn import Turn
from segue.core.usage import Limit
from segue.core.view import account_mark, is_same_user, old_account_mark
from segue.store.store import Store
from segue.system import clock
from segue.turns.agent_choice import identity_of, surroundings
from segue.turns.gate import may_send
from segue.turns.prepare import Prepared

MOST_RUNS = 3
"""How many accounts are tried with one message, the first one included."""


def other_account(prepared: Prepared, store: Store, turn: Turn, without: Collection[str] = ()) -> str | None:
    """The account that takes the message of a turn that met a limit; None: nobody does. ``without``: those
    that cannot. An account is left out if a rule keeps the words of this one from it, or words that the
    message repeats.

    A turn whose tools have run is left where it is: another account would do it all again.
    """
    config, mine = prepared.config, prepared.account_name
    if turn.failure is None or turn.failure.kind != "rate_limited" or turn.tools_run != 0:
        return None
    tried = {*prepared.limited, mine}
    if turn.message is None or config.on_limit(mine) != "switch" or len(tried) >= MOST_RUNS:
        return None
    marks = _marks(prepared, store, turn.message)
    others = [
        name
        for name, account in config.accounts.items()
        if account.agent == prepared.agent.facts.name
        and name not in tried
        and name not in without
        and may_send(config, marks, old_account_mark(account.agent, name), "user") is None
    ]
    known = {name: _limits(prepared, store, name) for name in others}
    return chosen(known, config.limits.order, clock.now_ms())


def _marks(prepared: Prepared, store: Store, message: str) -> set[str]:
    """Whose words another account would get with the message."""
    messages = store.messages(prepared.conversation.id)
    return {prepared.mark}.union(*(each.under for each in messages if each.id == message))


def chosen(accounts: dict[str, list[Limit] | None], order: AccountOrder, now_ms: int) -> str | None:
    """The first one in this order that still has room. ``accounts``: as listed, each with its limits; None:
    it cannot be used."""
    usable = {name: limits for name, limits in accounts.items() if limits is not None}
    free = [name for name, limits in usable.items() if not used_up(limits, now_ms)]
    if order == "most_room":
        free.sort(key=lambda name: share_used(usable[name], now_ms))
    elif order == "soonest_reset":
        free.sort(key=lambda name: next_reset(usable[name], now_ms))
    return free[0] if free else None


def _limits(prepared: Prepared, store: Store, name: str) -> list[Limit] | None:
    """What is known about the limits of its current login; None: that is the login that met the limit, or the
    prompt repeats words that the rules do not let it have unasked."""
    from segue.turns.gate import may_send

    agent = prepared.agent
    child, home = surroundings(agent, prepared.config.accounts[name], prepared.env)
    who = identity_of(agent, name, home, child, store)
    mine = identity_of(agent, prepared.account_name, prepared.home, prepared.child, store)
    to = account_mark(agent.facts.name, name, who.mark)
    barred = may_send(prepared.config, prepared.ask.given, to, "policy") is not None
    return None if barred or is_same_user(who, mine) else store.limits(agent.facts.name, name, who.mark)
