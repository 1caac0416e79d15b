"""Sets up a rehearsal: homes for the CLIs, a SEGUE_HOME whose accounts point at the model, and an environment
without anything that leads to a real provider.

The user's own configuration is used. Its accounts keep their names, so that a script finds them, but their
homes, addresses and keys are replaced. Its declared agents are the user's own commands, and run as they are
declared. Its store is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from segue.core import toml
from segue.core.environment import AgentVariables, looks_secret
from segue.core.request import ModelAddress, Pointing
from segue.rehearsal.log import write_private

_TUNING = re.compile(r"(\w+_)?(MODEL|EFFORT|LOG|(MAX|DISABLE|DEBUG)_\w+|TIMEOUT_MS)")
"""Names, after their prefix, of variables that are kept: they change how a CLI works, not what it calls."""
_OURS = re.compile(r"SEGUE_(ACCOUNTS|STORE)(_\w+)?")
"""Removed: accounts from variables are already in the user's configuration, and the store is not used."""
_ADDRESSES = ("_URL", "_BASE", "_ENDPOINT", "_HOST")
_BELOW_V1 = ("OPENAI_", "MISTRAL_")
"""Providers whose addresses end with the version of the protocol."""


def leads_away(name: str, variables: AgentVariables) -> bool:
    """Whether a variable could make a CLI call anything other than the model. This includes all variables of
    the providers, because the next version may know new ones."""
    if variables.is_mark(name) or _OURS.fullmatch(name) or name.upper().endswith("_PROXY"):
        return True
    tuned = (name.removeprefix(begin) for begin in variables.tuned if name.startswith(begin))
    return name.startswith(variables.providers) and not any(map(_TUNING.fullmatch, tuned))


def harmless_env(env: Mapping[str, str], variables: AgentVariables) -> dict[str, str]:
    """The variables that neither lead away nor are secrets."""
    away = {name for name in env if leads_away(name, variables) or looks_secret(name)}
    return {name: value for name, value in env.items() if name not in away}


def turned_env(env: Mapping[str, str], model: ModelAddress, variables: AgentVariables) -> dict[str, str]:
    """The environment for a declared agent: addresses of providers become the model's, secrets its key."""
    kept = harmless_env(env, variables)
    for name in env.keys() - kept.keys():
        if looks_secret(name):
            kept[name] = model.key
        elif name.endswith(_ADDRESSES):
            kept[name] = f"{model.url}/v1" if name.startswith(_BELOW_V1) else model.url
    return kept


Rehearse = Callable[[ModelAddress, Path], Pointing | None]
"""How an agent is pointed at a model, in a home; None: this is not possible."""
RETRIES = 2
"""How often a CLI retries a failed request; by default they retry for minutes."""

_NAMED = frozenset({"accounts", "agents", "prices", "models"})
_LEFT_OUT = frozenset({"accounts", "store"})
_DIRECT = "127.0.0.1,localhost"


def asks_model(rehearse: Rehearse) -> bool:
    """Whether an agent can be rehearsed, and would ask the model."""
    pointing = rehearse(ModelAddress("http://127.0.0.1", ""), Path())
    return pointing is not None and pointing.asks_model


class Staged(msgspec.Struct, frozen=True):
    """The variables for all CLIs together, and for each of them."""

    env: dict[str, str]
    by_agent: dict[str, dict[str, str]]
    variables: AgentVariables
    """The variables of all agents, which must not come from the caller's environment."""

    def leads_away(self, name: str) -> bool:
        return leads_away(name, self.variables)


def stage(
    model: ModelAddress,
    place: Path,
    agents: Mapping[str, Rehearse],
    variables: AgentVariables,
    own: toml.Tables | None = None,
) -> Staged:
    """Write the homes of the agents under ``place``. The user's own files are not touched.

    ``own``: the user's configuration. An agent in it that is not among ``agents`` is the user's own command.
    """
    limited = msgspec.structs.replace(model, url=model.url.rstrip("/"), retries=RETRIES)
    return _Setting(limited, place, agents, variables).written(own or {})


class _Setting(msgspec.Struct, frozen=True):
    """The model, the directory for the homes, and the agents."""

    model: ModelAddress
    place: Path
    agents: Mapping[str, Rehearse]
    variables: AgentVariables

    def written(self, own: toml.Tables) -> Staged:
        by_agent: dict[str, dict[str, str]] = {}
        accounts: dict[str, dict[str, Any]] = {}
        for agent in self.agents:
            home = self.place / agent
            pointing = self._settled(agent, home)
            if pointing is None:
                continue
            by_agent[agent] = pointing.env | pointing.fence
            if pointing.asks_model:
                accounts[agent] = _account(agent, home, by_agent[agent])
        accounts |= self._accounts(own.get("accounts", {}))
        config = {name: table for name, table in own.items() if name not in _LEFT_OUT}
        segue = _made(self.place / "segue")
        text = toml.toml_text({**config, "accounts": accounts}, _NAMED)
        write_private(segue / "config.toml", text)
        merged = {name: value for env in by_agent.values() for name, value in env.items()}
        direct = {"NO_PROXY": _DIRECT, "no_proxy": _DIRECT}
        return Staged({**merged, **direct, "SEGUE_HOME": str(segue)}, by_agent, self.variables)

    def _settled(self, agent: str, home: Path) -> Pointing | None:
        """Write an agent's files in this home, and return its settings; None for a declared agent."""
        pointing = self.agents[agent](self.model, home) if agent in self.agents else None
        if pointing is None:
            return None
        _made(home)
        for path, text in pointing.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            write_private(home / path, text)
        return pointing

    def _accounts(self, theirs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The user's accounts. Those that share a home share one here, too."""
        shared: dict[tuple[str, str], Path] = {}
        found: dict[str, dict[str, Any]] = {}
        for name, account in theirs.items():
            agent, outside, env = account["agent"], account.get("home"), account.get("env", {})
            home = self.place / agent
            if outside is not None:
                home = shared.setdefault((agent, outside), self.place / "accounts" / name)
            pointing = self._settled(agent, home)
            if pointing is not None:
                kept = harmless_env(env, self.variables)
                found[name] = _account(agent, home, kept | pointing.env | pointing.fence)
            else:
                lives = {"home": str(_made(home))} if outside is not None else {}
                turned = turned_env(env, self.model, self.variables)
                found[name] = {"agent": agent, "env": turned, **lives}
        return found


def on_stage(env: Mapping[str, str], staged: Staged) -> dict[str, str]:
    """The environment for a command in the rehearsal."""
    return {name: value for name, value in env.items() if not staged.leads_away(name)} | staged.env


def _account(agent: str, home: Path, env: dict[str, str]) -> dict[str, Any]:
    """An account. One with the agent's own name is the agent's default."""
    return {"agent": agent, "home": str(home), "env": env}


def _made(home: Path) -> Path:
    for folder in (home.parent, home):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home
