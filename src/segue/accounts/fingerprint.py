"""Who an account is, without its secrets: the agent, its home, who is logged in, and where requests go.

Only hashes and names. It stays the same when a token is refreshed, and when the same user logs out and in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from segue.agents.base import Agent
from segue.agents.decoding import TellsRoute, hashed
from segue.config.schema import Account
from segue.core.environment import ChildEnvironment, Route
from segue.core.view import UNKNOWN, UNREADABLE
from segue.turns.agent_choice import key_hashes, route_names, surroundings


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Who an account is, without its secrets."""

    agent: str
    home: str
    """A hash of the directory's identity: of its place on the disk, or of its path if it does not exist."""
    login: str
    """A hash of who is logged in; ``unknown``: the CLI's files do not show it, or cannot be read now."""
    method: Literal["login", "key", "cloud", "unknown"]
    """How the CLI proves itself, as far as settings and names of variables show it."""
    route: dict[str, str]
    """The variables and settings that say where requests go and who pays, by name, each with a hash of its
    value; empty if only its name counts."""
    whole: str
    """A hash of all of this."""


def fingerprint(agent: Agent, account: Account, env: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of an account now. ``env``: the caller's environment."""
    child, home = surroundings(agent, account, env)
    login = agent.format.login(home, child.env) if agent.format is not None else None
    seen = agent.route(home, child.env) if isinstance(agent, TellsRoute) else None
    route = seen or Route()
    who = UNKNOWN if login in (None, UNREADABLE) else str(login)
    name, place = agent.facts.name, _place(home)
    return Fingerprint(
        agent=name,
        home=place,
        login=who,
        method=route.method,
        route=dict(sorted((_places(route) | _keys(route, child)).items())),
        whole=hashed("\n".join((name, place, who, route.method, route_names(route, child)[0]))),
    )


def _places(route: Route) -> dict[str, str]:
    return {name: value and hashed(value) for name, value in route.variables.items()}


def _keys(route: Route, child: ChildEnvironment) -> dict[str, str]:
    """If their user is named, only their names count."""
    known = key_hashes(route, child.env)
    return known if child.user is None else dict.fromkeys(known, "")


def _place(home: Path) -> str:
    try:
        stat = home.stat()
    except OSError:
        return hashed(os.path.realpath(home))
    return hashed(f"{stat.st_dev}:{stat.st_ino}")
