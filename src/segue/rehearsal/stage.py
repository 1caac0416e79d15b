"""Sets the stage for a rehearsal: homes for the CLIs, a SEGUE_HOME whose accounts point at the model, and an
environment in which no road leads to a real provider.

The user's own configuration comes along. Its accounts keep their names, so that a script finds them, but
their homes, addresses and keys are the rehearsal's. Its declared agents are the user's own commands, and run
as they are declared. Its store stays outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from segue.rehearsal import toml
from segue.rehearsal.log import write_private
from segue.rehearsal.roads import harmless, leads_away, turned
from segue.rehearsal.setup import point

AGENTS = ("claude", "codex", "gemini", "vibe")
OURS = "rehearsal"
"""The agent that needs no model."""
RETRIES = 2
"""How often a CLI tries a failed request again: by themselves they go on for minutes."""

_NAMED = frozenset({"accounts", "agents", "prices"})
_LEFT_OUT = frozenset({"accounts", "store"})
_DIRECT = "127.0.0.1,localhost"


class Staged(msgspec.Struct, frozen=True):
    """The variables for everything together, and for each CLI alone."""

    env: dict[str, str]
    by_agent: dict[str, dict[str, str]]


def stage(
    url: str, key: str, place: Path, *, own: toml.Tables | None = None, scenario: Path | None = None
) -> Staged:
    """Write the homes under ``place``; nothing of the user's is touched.

    ``own``: the user's configuration; ``scenario``: for the rehearsal agent, which does not ask the model.
    """
    return _Setting(url, key, place, scenario).written(own or {})


class _Setting(msgspec.Struct, frozen=True):
    """Where the model is, its key, and where everything is put."""

    url: str
    key: str
    place: Path
    scenario: Path | None

    def written(self, own: toml.Tables) -> Staged:
        by_agent = {agent: self._settled(agent, self.place / agent) for agent in (*AGENTS, OURS)}
        accounts = {agent: _account(agent, self.place / agent, by_agent[agent]) for agent in AGENTS}
        accounts |= self._accounts(own.get("accounts", {}))
        config = {name: table for name, table in own.items() if name not in _LEFT_OUT}
        segue = _made(self.place / "segue")
        text = toml.write({**config, "accounts": accounts}, _NAMED)
        write_private(segue / "config.toml", text)
        merged = {name: value for env in by_agent.values() for name, value in env.items()}
        direct = {"NO_PROXY": _DIRECT, "no_proxy": _DIRECT}
        return Staged({**merged, **direct, "SEGUE_HOME": str(segue)}, by_agent)

    def _settled(self, agent: str, home: Path) -> dict[str, str]:
        """The variables that an agent lives by in this home, and what it finds there."""
        _made(home)
        if agent == OURS:
            told = {"REHEARSAL_SCENARIO": str(self.scenario)} if self.scenario is not None else {}
            return {"REHEARSAL_HOME": str(home), **told}
        pointing = point(agent, self.url, home, key=self.key, retries=RETRIES)
        pointing.write(home)
        return pointing.env | self._fence().get(agent, {})

    def _fence(self) -> dict[str, dict[str, str]]:
        """What keeps a project's own files (settings, ``.env``) from leading away: variables win over it."""
        return {
            "claude": {"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1"},
            "gemini": {
                "GOOGLE_GENAI_USE_VERTEXAI": "false",
                "GOOGLE_GENAI_USE_GCA": "false",
                "GOOGLE_VERTEX_BASE_URL": self.url,
                "CODE_ASSIST_ENDPOINT": self.url,
            },
        }

    def _accounts(self, theirs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """The user's accounts: those that share a home outside share one here."""
        shared: dict[tuple[str, str], Path] = {}
        found: dict[str, dict[str, Any]] = {}
        for name, account in theirs.items():
            agent, outside, env = account["agent"], account.get("home"), account.get("env", {})
            home = self.place / agent
            if outside is not None:
                home = shared.setdefault((agent, outside), self.place / "accounts" / name)
            if agent in (*AGENTS, OURS):
                found[name] = _account(agent, home, harmless(env) | self._settled(agent, home))
            else:
                lives = {"home": str(_made(home))} if outside is not None else {}
                found[name] = {"agent": agent, "env": turned(env, self.url, self.key), **lives}
        return found


def on_stage(env: Mapping[str, str], staged: Staged) -> dict[str, str]:
    """The caller's environment for a command of the rehearsal."""
    return {name: value for name, value in env.items() if not leads_away(name)} | staged.env


def _account(agent: str, home: Path, env: dict[str, str]) -> dict[str, Any]:
    """One of the agent's own name is what it uses unless told otherwise."""
    return {"agent": agent, "home": str(home), "env": env}


def _made(home: Path) -> Path:
    for folder in (home.parent, home):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home
