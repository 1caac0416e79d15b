"""The configuration as it is in effect, without anything secret.

Values of environments, the store's URL and the arguments of commands can be secrets, so they are never shown:
only the names of variables, the kind of store and the program of a command.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from segue.app.account_shapes import AccountShown
from segue.app.accounts import accounts_of, with_limits
from segue.app.workspace import Workspace
from segue.config.schema import (
    Budgets,
    Carry,
    Config,
    Daemon,
    Defaults,
    Keep,
    Limits,
    Model,
    Queue,
    Recap,
    Retention,
)
from segue.core.situation import Policy
from segue.core.turn import Clause
from segue.core.usage import Price


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
    budgets: Budgets
    carry: Carry
    keep: Keep
    daemon: Daemon
    queue: Queue
    defaults: Defaults
    accounts: tuple[AccountShown, ...]
    agents: tuple[AgentSetting, ...]
    prices: dict[str, Price]
    models: dict[str, Model]
    notices: tuple[str, ...]
    """What was ignored, and why."""
    notice_clauses: tuple[tuple[Clause, ...], ...] = ()
    """Each of them as data, in the same order."""


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
        budgets=config.budgets,
        carry=config.carry,
        keep=config.keep,
        daemon=config.daemon,
        queue=config.queue,
        defaults=config.defaults,
        accounts=tuple(with_limits(workspace, each) for each in accounts_of(config)),
        agents=tuple(_agents(config)),
        prices=config.prices,
        models=config.models,
        notices=config.mentions,
        notice_clauses=tuple(each.clauses for each in config.remarks),
    )


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
