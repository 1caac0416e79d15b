"""Who answers: the agent, account, model and role, as requested, else as the conversation remembers, else as
configured or installed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.schema import Account, Config
from segue.core.errors import Misuse, NotInstalled
from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.request import NONE, TurnRequest

LOOKED_AT = 100
"""How many turns of an agent are searched for its last account and model in a role."""


class Remembered(msgspec.Struct, frozen=True):
    """Who answers: as requested, else as before."""

    agent: str | None = None
    account: str | None = None
    """Empty: no account, as requested or as before. None: as configured."""
    model: str | None = None
    role: str = ""


def remembered_options(ask: TurnRequest, store: Store, known: Conversation | None) -> Remembered:
    """An account names its agent; an agent brings the account and the model it last had here."""
    role = _wanted(ask.role, known.role if known is not None else "") or ""
    if known is None:
        return Remembered(ask.agent, _account(ask.account), _wanted(ask.model), role)
    if ask.account not in (None, NONE) and ask.agent is None:
        same = ask.account == known.account
        return Remembered(None, ask.account, _wanted(ask.model, known.model if same else None), role)
    agent = ask.agent or known.agent or None
    account, model = _last_of(agent, role, store, known)
    return Remembered(agent, _account(ask.account, account), _wanted(ask.model, model), role)


def _wanted(now: str | None, before: str | None = None) -> str | None:
    """What is requested now, else before; ``none`` resets what was requested before."""
    wanted = before if now is None else now
    return None if now == NONE else wanted


def _account(now: str | None, before: str | None = None) -> str | None:
    """The account now, else before. No account is remembered too: a later default does not change it."""
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


def resolve_agent(
    wanted_agent: str | None, wanted_account: str | None, config: Config, env: Mapping[str, str]
) -> tuple[Agent, str | None, Account | None]:
    """The agent and the account: as requested, else as configured, else the first agent installed.

    An empty account is a request for none.
    """
    open_to_all = wanted_account is None and wanted_agent is None
    named = config.defaults.account if open_to_all else wanted_account
    account = _chosen_account(named, config) if named else None
    wanted = wanted_agent or (account.agent if account else config.defaults.agent)
    agent = registry.get(wanted, config) if wanted is not None else _installed(config, env)
    if account is None:
        return agent, *(_own_account(agent.facts.name, config) if wanted_account is None else (None, None))
    if agent.facts.name != account.agent:
        raise Misuse(f'the account "{named}" belongs to {account.agent}, not to {agent.facts.name}')
    return agent, named, account


def _chosen_account(name: str, config: Config) -> Account:
    if name not in config.accounts:
        names = ", ".join(config.accounts) or "none"
        raise Misuse(f'there is no account "{name}" in config.toml (known: {names})')
    return config.accounts[name]


def _own_account(agent: str, config: Config) -> tuple[str | None, Account | None]:
    """The agent's account if none is requested: the default one if it is the agent's, else its namesake."""
    for name in (config.defaults.account, agent):
        if name is not None and name in config.accounts and config.accounts[name].agent == agent:
            return name, config.accounts[name]
    return None, None


def _installed(config: Config, env: Mapping[str, str]) -> Agent:
    agents = registry.preferred(config)
    for agent in agents:
        try:
            probe.find(agent, env=env, configured=config.commands.get(agent.facts.name))
        except NotInstalled:
            continue
        return agent
    raise NotInstalled(
        f"no agent is installed; install one ({agents[0].facts.install}), or try without: --agent rehearsal"
    )
