"""Where native sessions can be on this machine: the homes of all agents and accounts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.agents.base import SessionArchive, SessionFormat, StoredSession
from segue.config.home import Home
from segue.config.schema import Config
from segue.store.records import SessionRow


class AgentHome(msgspec.Struct, frozen=True):
    """One home of one agent. ``account`` is None for a home that Segue used but no account names."""

    agent: str
    account: str | None
    home: Path
    format: SessionFormat
    archive: SessionArchive

    def find(self, session: str) -> StoredSession | None:
        return self.format.find(self.home, session)


def agent_homes(
    env: Mapping[str, str], config: Config, home: Home, known: Iterable[SessionRow] = ()
) -> list[AgentHome]:
    """All homes, each once: those of accounts, the agents' default homes, the private homes of runners, and
    the homes of sessions that the store knows on this host."""
    found: dict[tuple[str, str], AgentHome] = {}
    formats: dict[str, tuple[SessionFormat, SessionArchive] | None] = {}
    for agent, account, path in _named(env, config, home, known):
        key = (agent, os.path.realpath(path))
        if key in found or not path.is_dir():
            continue
        if agent not in formats:  # a reader is imported only if there may be something to read
            formats[agent] = _format(agent, config)
        known_format = formats[agent]
        if known_format is not None:
            found[key] = AgentHome(agent, account, path, *known_format)
    return list(found.values())


def _named(
    env: Mapping[str, str], config: Config, home: Home, known: Iterable[SessionRow]
) -> Iterator[tuple[str, str | None, Path]]:
    for name, account in config.accounts.items():
        if account.home is not None:
            yield account.agent, name, Path(account.home)
    for agent, own in registry.default_homes(env).items():
        yield agent, _default_account(agent, config), own
    for runners in _directories(home.runners):
        agent, _, name = runners.name.partition("-")
        for runner in _directories(runners):
            yield agent, name if name in config.accounts else None, runner
    for session in known:
        yield session.agent, session.account or None, Path(session.home)


def _default_account(agent: str, config: Config) -> str | None:
    """The account without its own home, which uses the agent's default home."""
    names = [n for n, account in config.accounts.items() if account.agent == agent and account.home is None]
    return names[0] if len(names) == 1 else None


def _format(name: str, config: Config) -> tuple[SessionFormat, SessionArchive] | None:
    if name not in registry.BUILT_IN and name not in registry.names(config):
        return None
    agent = registry.get(name, config)
    archive = agent.archive()
    return (agent.format, archive) if agent.format is not None and archive is not None else None


def _directories(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
