"""The known agents: where each was found, and what it can do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.app.shapes import AgentShown
from segue.config.home import home_of
from segue.config.load import load
from segue.config.schema import Config
from segue.core.environment import child_environment
from segue.core.errors import SegueError
from segue.core.request import Runtime
from segue.turns.agent_choice import resolve_agent, surroundings

if TYPE_CHECKING:
    from segue.app.workspace import Workspace

AT_ONCE = 8


def survey(env: Mapping[str, str], cwd: Path) -> list[AgentShown]:
    """Look for all agents at the same time. If a program has not changed, its cached probe is used."""
    config = load(env, cwd)
    cache = probe_cache(env)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda name: _look(name, config, cache, env), registry.imported(config)))


def found_agent(
    name: str | None, account: str | None, config: Config, env: Mapping[str, str], cwd: Path
) -> tuple[Agent, str | None, Runtime]:
    """The agent and account that a turn would use there, and the program. Raises if there is none."""
    agent, named, chosen = resolve_agent(name, account, config, env, cwd)
    child, _ = surroundings(agent, chosen, env)
    command = config.commands.get(agent.facts.name)
    return agent, named, probe.probe(agent, env=child.env, configured=command, cache=probe_cache(env))


def with_models(agents: Iterable[AgentShown], workspace: Workspace) -> list[AgentShown]:
    """The same, with the models that stored turns asked for and used."""
    seen = workspace.store.reading.models()
    return [msgspec.structs.replace(each, models=seen.get(each.agent, ())) for each in agents]


def agent_names(env: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    """All known agents, installed or not."""
    return registry.names(load(env, cwd))


def probe_cache(env: Mapping[str, str]) -> Path | None:
    """The file that caches probes; None if Segue's home cannot be written."""
    home = home_of(env)
    try:
        home.make(home.root)
    except OSError:
        return None
    return home.probes if os.access(home.root, os.W_OK) else None


def probed(agent: Agent, env: Mapping[str, str], config: Config, cache: Path | None) -> Runtime:
    """The agent's program, probed in the environment that a turn would start it in."""
    child = child_environment(env, registry.variables(), keys_withheld=agent.facts.keys).env
    return probe.probe(agent, env=child, configured=config.commands.get(agent.facts.name), cache=cache)


def place_of(agent: Agent, runtime: Runtime) -> str:
    return "built in" if agent.facts.builtin else runtime.command[0]


def _look(name: str, config: Config, cache: Path | None, env: Mapping[str, str]) -> AgentShown:
    accounts = tuple(key for key, account in config.accounts.items() if account.agent == name)
    label = name
    try:
        agent = registry.get(name, config)
        label = agent.facts.label
        runtime = probed(agent, env, config, cache)
    except SegueError as error:
        return AgentShown(name, label, None, None, None, None, accounts, error.message)
    path = place_of(agent, runtime)
    version, can = runtime.version, runtime.capabilities
    return AgentShown(name, label, path, version, runtime.distribution, can, accounts)
