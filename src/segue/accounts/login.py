"""How to log in to an account: the CLI's own command, in the account's home. Segue sees no credential."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.schema import Account, Config
from segue.core.errors import Misuse
from segue.turns.agent_choice import surroundings


class LoginProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What to start, in a terminal."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment, as a turn would have it."""
    home: Path
    shell: str
    """The same as a line for a shell: the variable of the home, and the command."""


def login_process(config: Config, account: Account, env: Mapping[str, str]) -> LoginProcess:
    """The CLI's own login in the account's home. Raises ``Misuse`` if it has no such command."""
    agent = registry.get(account.agent, config)
    child, home = surroundings(agent, account, env)
    command = probe.find(agent, env=child.env, configured=config.commands.get(agent.facts.name))
    argv = (*command, *agent.facts.login_args)
    line = _line(agent, account, (*_short(command), *agent.facts.login_args))
    if not agent.facts.login_args:
        hint = f": {agent.facts.login_hint}" if agent.facts.login_hint else ""
        start = "" if agent.facts.builtin else f" ({line})"
        raise Misuse(f"{agent.facts.label} has no command to log in{hint}{start}")
    return LoginProcess(argv=argv, env={**child.env, **agent.facts.every_start}, home=home, shell=line)


def _short(command: tuple[str, ...]) -> tuple[str, ...]:
    return (Path(command[0]).name, *command[1:])


def _line(agent: Agent, account: Account, argv: tuple[str, ...]) -> str:
    import shlex

    named = agent.home_env(Path(account.home)) if account.home else {}
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in named.items()), shlex.join(argv)])
