"""Who answers: the agent and the account, as asked, as configured, or as installed."""

from __future__ import annotations

from collections.abc import Mapping

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.schema import Account, Config
from segue.core.errors import Misuse, NotInstalled

PREFERRED = ("claude", "codex", "gemini", "vibe")
"""The order in which an installed agent is taken when none is named."""


def who(
    wanted_agent: str | None, wanted_account: str | None, config: Config, env: Mapping[str, str]
) -> tuple[Agent, str | None, Account | None]:
    """The agent and the account: as asked, else as configured, else the first agent installed.

    An empty account is asked for, too: that there be none.
    """
    open_to_all = wanted_account is None and wanted_agent is None
    named = config.defaults.account if open_to_all else wanted_account
    account = _account(named, config) if named else None
    wanted = wanted_agent or (account.agent if account else config.defaults.agent)
    agent = registry.get(wanted, config) if wanted is not None else _installed(config, env)
    if account is None:
        return agent, *(_own_account(agent.name, config) if wanted_account is None else (None, None))
    if agent.name != account.agent:
        raise Misuse(f'the account "{named}" is of {account.agent}, not of {agent.name}')
    return agent, named, account


def _account(name: str, config: Config) -> Account:
    if name not in config.accounts:
        known = ", ".join(config.accounts) or "none"
        raise Misuse(f'there is no account "{name}" in config.toml (known: {known})')
    return config.accounts[name]


def _own_account(agent: str, config: Config) -> tuple[str | None, Account | None]:
    """The account that an agent uses unless told otherwise: the default one if it is its, or its namesake."""
    for name in (config.defaults.account, agent):
        if name is not None and name in config.accounts and config.accounts[name].agent == agent:
            return name, config.accounts[name]
    return None, None


def _installed(config: Config, env: Mapping[str, str]) -> Agent:
    for name in PREFERRED:
        agent = registry.get(name, config)
        try:
            probe.find(agent, env=env, configured=config.commands.get(name))
        except NotInstalled:
            continue
        return agent
    raise NotInstalled(
        "no agent is installed; install one (npm install -g @anthropic-ai/claude-code),"
        " or try without: --agent rehearsal"
    )
