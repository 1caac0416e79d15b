"""Every agent by its short name: built in, declared in ``config.toml``, or provided by another package.

A built-in adapter is imported when it is first used. Installed packages are searched (entry point group
``segue.agents``) only for a name that is neither built in nor declared, or to list all agents.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.environment import AgentVariables
from segue.core.errors import Misuse, SegueError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "segue.agents"

BUILT_IN = {
    "claude": "segue.agents.claude.adapter",
    "codex": "segue.agents.codex.adapter",
    "gemini": "segue.agents.gemini.adapter",
    "vibe": "segue.agents.vibe.adapter",
    "rehearsal": "segue.agents.rehearsal.adapter",
}
"""Short name → module with the adapter as ``AGENT``."""


def get(name: str, config: Config) -> Agent:
    """The agent with this name. Raises ``Misuse`` with the known names."""
    if name in BUILT_IN:
        agent: Agent = import_module(BUILT_IN[name]).AGENT
        return agent
    if name in config.declared:
        from segue.agents.declared.adapter import Declared

        return Declared(name, config.declared[name])
    installed = _installed()
    if name in installed:
        return _load(installed[name])
    if name in config.commands:
        raise Misuse(
            f"[agents.{name}] does not say how the prompt reaches its command:"
            ' put {prompt} into it, or declare stdin = "prompt"'
        )
    raise Misuse(_unknown(name, names(config)))


def default_homes(env: Mapping[str, str]) -> dict[str, Path]:
    """The default home of each built-in agent, from its package: no adapter is loaded."""
    return {
        name: import_module(module.rpartition(".")[0]).default_home(env) for name, module in BUILT_IN.items()
    }


@cache
def variables() -> AgentVariables:
    """The environment variables of all built-in agents, from their packages: no adapter is loaded."""
    merged = AgentVariables()
    for module in BUILT_IN.values():
        merged |= import_module(module.rpartition(".")[0]).VARIABLES
    return merged


def preferred(config: Config) -> list[Agent]:
    """The agents to choose from if none is named, the preferred one first."""
    agents = (get(name, config) for name in BUILT_IN)
    ranked = [(agent.facts.rank, agent) for agent in agents if agent.facts.rank is not None]
    return [agent for _, agent in sorted(ranked, key=lambda each: each[0])]


def names(config: Config) -> tuple[str, ...]:
    """The names of all agents, each once, in the order in which ``get`` looks for them."""
    return tuple(dict.fromkeys((*BUILT_IN, *sorted(config.declared), *sorted(_installed()))))


def imported(config: Config) -> tuple[str, ...]:
    """All names, for callers that continue in threads: imports their adapters here, one after another."""
    for name in (all_names := names(config)):
        with suppress(SegueError):
            get(name, config)
    return all_names


def _installed() -> dict[str, "EntryPoint"]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: "EntryPoint") -> Agent:
    """The adapter behind an entry point: the object it names, or the ``AGENT`` of the module it names."""
    agent: Any
    try:
        loaded = entry.load()
        agent = getattr(loaded, "AGENT", loaded)
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise Misuse(f"{_where(entry)} cannot be loaded ({why}); update or uninstall it") from error
    if not isinstance(agent, Agent):
        raise Misuse(f"{_where(entry)} is not an agent adapter; check it with segue.testing.check_adapter")
    if agent.facts.name != entry.name:
        raise Misuse(f'{_where(entry)} calls itself "{agent.facts.name}"; the two names must be the same')
    return agent


def _where(entry: "EntryPoint") -> str:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    return f'the agent "{entry.name}" of {package} ({entry.value})'


def _unknown(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f'there is no agent "{name}"{hint} Known: {", ".join(known)}'
