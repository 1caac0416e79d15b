"""The configuration as it is in effect, without anything secret.

Values of environments, the store's URL and the arguments of commands can be secrets, so they are never shown:
only the names of variables, the kind of store and the program of a command.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.agents import registry
from segue.agents.base import TellsPays
from segue.app.workspace import Workspace
from segue.config.schema import Account, Config, Daemon, Defaults, Keep, Limits, Queue, Recap, Retention
from segue.core.errors import SegueError
from segue.core.limits import shown
from segue.core.situation import Policy
from segue.core.usage import LimitShown, Pays, Price
from segue.system import clock
from segue.turns.prepare import login_of, surroundings


class AccountShown(msgspec.Struct, frozen=True, kw_only=True):
    """A named identity of an agent."""

    name: str
    agent: str
    home: str | None
    """The agent's home directory under this account; null: its usual one."""
    env: tuple[str, ...]
    """The names of the variables that are set for the agent."""
    pass_env: tuple[str, ...]
    """The names of the caller's variables that are passed on."""
    limits: tuple[LimitShown, ...] = ()
    """Its usage limits, as they were last seen; empty: none is known."""
    pays: Pays = "unknown"
    """What pays for its turns."""


class AgentSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about an agent."""

    agent: str
    program: str
    """The program to start, without its arguments."""
    declared: bool
    """It is known from the configuration only."""


class SettingsShown(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as it is in effect: variables over the project's file over the user's file."""

    schema: int = 1
    home: str
    """Where Segue keeps its data."""
    config_file: str
    project: str | None
    """The project's file, if there is one."""
    store: Literal["sqlite", "postgresql"]
    host: str
    """The name of this machine for others that share the store."""
    continuity: Policy
    recap: Recap
    retention: Retention
    limits: Limits
    keep: Keep
    daemon: Daemon
    queue: Queue
    defaults: Defaults
    accounts: tuple[AccountShown, ...]
    agents: tuple[AgentSetting, ...]
    prices: dict[str, Price]
    notices: tuple[str, ...]
    """What was ignored, and why."""


def settings(workspace: Workspace) -> SettingsShown:
    config, home = workspace.config, workspace.home
    return SettingsShown(
        home=str(home.root),
        config_file=str(home.config_file),
        project=None if config.project is None else str(config.project),
        store="sqlite" if config.store.url is None else "postgresql",
        host=workspace.host.name,
        continuity=config.continuity,
        recap=config.recap,
        retention=config.retention,
        limits=config.limits,
        keep=config.keep,
        daemon=config.daemon,
        queue=config.queue,
        defaults=config.defaults,
        accounts=tuple(accounts(workspace)),
        agents=tuple(_agents(config)),
        prices=config.prices,
        notices=config.mentions,
    )


def accounts(workspace: Workspace) -> list[AccountShown]:
    """The configured accounts, by name."""
    config = workspace.config
    return [_account(workspace, config, name, each) for name, each in sorted(config.accounts.items())]


def _account(workspace: Workspace, config: Config, name: str, account: Account) -> AccountShown:
    limits, pays = _seen(workspace, config, name, account)
    return AccountShown(
        name=name,
        agent=account.agent,
        home=account.home,
        env=tuple(sorted(account.env)),
        pass_env=tuple(sorted(account.pass_env)),
        limits=limits,
        pays=pays,
    )


def _seen(
    workspace: Workspace, config: Config, name: str, account: Account
) -> tuple[tuple[LimitShown, ...], Pays]:
    """What is known about the account's current login."""
    try:
        agent = registry.get(account.agent, config)
    except SegueError:  # its agent is not known
        return (), "unknown"
    child, home = surroundings(agent, account, workspace.env)
    of = (account.agent, name, login_of(agent, home, child.env))
    pays = agent.pays(home, child.env) if isinstance(agent, TellsPays) else "unknown"
    if pays == "unknown":
        pays = workspace.store.payer(*of)
    return shown(workspace.store.limits(*of), clock.now_ms()), pays


def _agents(config: Config) -> list[AgentSetting]:
    own = [
        AgentSetting(agent=name, program=command[0], declared=False)
        for name, command in config.commands.items()
    ]
    declared = [
        AgentSetting(agent=name, program=_program(each.command[0]), declared=True)
        for name, each in config.declared.items()
    ]
    return sorted([*own, *declared], key=lambda each: each.agent)


def _program(part: str | tuple[str, ...]) -> str:
    return part if isinstance(part, str) else part[0]
