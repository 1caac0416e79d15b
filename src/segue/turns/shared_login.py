"""Two accounts with one login in two homes: refused, because the copies would log each other out.

The CLIs' refresh tokens can be used once. Which of two homes was copied from the other, and whether any was,
cannot be seen without reading secrets, so neither is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from segue.agents.base import Agent
from segue.agents.decoding import TellsRoute
from segue.config.schema import Account, Config
from segue.core.view import UNREADABLE
from segue.turns.agent_choice import surroundings


def shared_login(
    agent: Agent, name: str, account: Account, config: Config, env: Mapping[str, str]
) -> str | None:
    """Why the account cannot be used; None: no other account of the agent has its login in another home."""
    login, home = _login_of(agent, account, env)
    if login is None:
        return None
    for other, theirs in config.accounts.items():
        if other == name or theirs.agent != agent.facts.name:
            continue
        found, elsewhere = _login_of(agent, theirs, env)
        if found == login and not _is_same(home, elsewhere):
            return _reason(name, home, other, elsewhere)
    return None


def _reason(name: str, home: Path, other: str, elsewhere: Path) -> str:
    return (
        f'the accounts "{name}" ({home}) and "{other}" ({elsewhere}) have the same login in two homes;'
        " refresh tokens are single-use, so two copies log each other out: log one in as somebody else"
        f" (segue account login {name}), give both one home, or remove one (segue account rm {name})"
    )


def _login_of(agent: Agent, account: Account, env: Mapping[str, str]) -> tuple[str | None, Path]:
    """The login that the account uses, and its home; None: unknown, or it uses a key or another cloud."""
    child, home = surroundings(agent, account, env)
    route = agent.route(home, child.env) if isinstance(agent, TellsRoute) else None
    if agent.format is None or route is None or route.method != "login":
        return None, home
    login = agent.format.login(home, child.env)
    return (None if login == UNREADABLE else login), home


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
