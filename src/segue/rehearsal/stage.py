"""Sets the stage for a rehearsal: homes for the CLIs, a SEGUE_HOME whose accounts point at the model, and an
environment in which no road leads to a real provider.

The user's own configuration comes along. Its accounts keep their names, so that a script finds them, but
their homes, addresses and keys are the rehearsal's. Its declared agents are the user's own commands, and run
as they are declared. Its store stays outside.

Which variables lead to a real provider, and where they lead on the stage.

How each CLI is pointed at the loopback model: variables and files, as values.

`home` is what the CLI itself calls its home: `CLAUDE_CONFIG_DIR`, `CODEX_HOME`, `VIBE_HOME`, and for Gemini
the directory that holds `.gemini`. The key is the model's own and opens nothing else; nothing in here names
any address but the model's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from segue.core import toml
from segue.core.environment import is_mark, looks_secret
from segue.rehearsal.log import write_private

_PROVIDERS = (
    *("ANTHROPIC_", "CLAUDE_", "AWS_BEARER_TOKEN_", "CLOUD_ML_", "VERTEX_"),
    *("OPENAI_", "CODEX_", "AZURE_OPENAI_"),
    *("GEMINI_", "GOOGLE_", "CODE_ASSIST_"),
    *("MISTRAL_", "VIBE_"),
)
"""How the CLIs' own variables begin: keys, tokens, addresses, and switches to other clouds among them. All
are taken out, because the next version may know one more."""
_TUNING = re.compile(
    r"(ANTHROPIC|CLAUDE|GEMINI)_(\w+_)?(MODEL|EFFORT|LOG|(MAX|DISABLE|DEBUG)_\w+|TIMEOUT_MS)"
)
"""What is left in: it changes how a CLI works, not where it calls."""
_OURS = re.compile(r"SEGUE_(ACCOUNTS|STORE)(_\w+)?")
"""Accounts by variable come along with the user's others; the store never does."""
_ADDRESSES = ("_URL", "_BASE", "_ENDPOINT", "_HOST")
_BELOW_V1 = ("OPENAI_", "MISTRAL_")
"""Whose addresses have the version of the protocol at their end."""


def leads_away(name: str) -> bool:
    """Whether a variable could make a CLI call somebody else than the model."""
    if is_mark(name) or _OURS.fullmatch(name) or name.upper().endswith("_PROXY"):
        return True
    return name.startswith(_PROVIDERS) and not _TUNING.fullmatch(name)


def harmless_env(env: Mapping[str, str]) -> dict[str, str]:
    """What neither leads away nor is a secret."""
    return {name: value for name, value in env.items() if not (leads_away(name) or looks_secret(name))}


def turned_env(env: Mapping[str, str], url: str, key: str) -> dict[str, str]:
    """For an agent of the user's own: a provider's address is the model's, and every secret is its key."""
    kept = harmless_env(env)
    for name in env.keys() - kept.keys():
        if looks_secret(name):
            kept[name] = key
        elif name.endswith(_ADDRESSES):
            kept[name] = f"{url}/v1" if name.startswith(_BELOW_V1) else url
    return kept


CODEX_MODEL = "gpt-5.5"
"""One that every version under test knows or takes without a warning, and that is told its tools in the way
that the loopback model understands."""
_SECONDS_PER_RETRY = 2.0


class Pointing(Struct, frozen=True):
    """Variables to add to the environment, and files to write, by their path under the home."""

    env: dict[str, str]
    files: dict[Path, str]

    def write(self, home: Path) -> None:
        for path, text in self.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            write_private(home / path, text)


def point_at_model(agent: str, url: str, home: Path, *, key: str, retries: int | None = None) -> Pointing:
    """Point `claude`, `codex`, `gemini` or `vibe` at the model; `retries` caps how often it asks again."""
    try:
        pointer = _POINTERS[agent]
    except KeyError:
        raise ValueError(
            f"no way is known to point {agent!r} at a model; known: {', '.join(_POINTERS)}"
        ) from None
    return pointer(url.rstrip("/"), key, home, retries)


def _claude(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "CLAUDE_CONFIG_DIR": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }
    if retries is not None:
        env["CLAUDE_CODE_MAX_RETRIES"] = str(retries)
    return Pointing(env, {})


def _codex(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    limits = "" if retries is None else f"request_max_retries = {retries}\nstream_max_retries = {retries}\n"
    config = f"""\
model = "{CODEX_MODEL}"
model_provider = "rehearsal"
check_for_update_on_startup = false

[model_providers.rehearsal]
name = "rehearsal"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "REHEARSAL_API_KEY"
{limits}
[analytics]
enabled = false

[features]
plugins = false
"""
    return Pointing({"CODEX_HOME": str(home), "REHEARSAL_API_KEY": key}, {Path("config.toml"): config})


def _gemini(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    general: dict[str, object] = {"disableAutoUpdate": True, "disableUpdateNag": True}
    if retries is not None:
        general["maxAttempts"] = retries + 1
    settings = {
        "general": general,
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    env = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": key, "GEMINI_CLI_HOME": str(home)}
    return Pointing(env, {Path(".gemini/settings.json"): json.dumps(settings, indent=2) + "\n"})


def _vibe(url: str, key: str, home: Path, retries: int | None) -> Pointing:
    limit = "" if retries is None else f"api_retry_max_elapsed_time = {retries * _SECONDS_PER_RETRY}\n"
    config = f"""\
active_model = "rehearsal"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_notifications = false
{limit}
[[providers]]
name = "rehearsal"
api_base = "{url}/v1"
api_key_env_var = "REHEARSAL_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "rehearsal"
provider = "rehearsal"
alias = "rehearsal"
input_price = 0.4
output_price = 2.0
"""
    return Pointing(
        {"VIBE_HOME": str(home), "MISTRAL_API_KEY": key, "REHEARSAL_API_KEY": key},
        {Path("config.toml"): config},
    )


_POINTERS: dict[str, Callable[[str, str, Path, int | None], Pointing]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "vibe": _vibe,
}


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
        text = toml.toml_text({**config, "accounts": accounts}, _NAMED)
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
        pointing = point_at_model(agent, self.url, home, key=self.key, retries=RETRIES)
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
                found[name] = _account(agent, home, harmless_env(env) | self._settled(agent, home))
            else:
                lives = {"home": str(_made(home))} if outside is not None else {}
                found[name] = {"agent": agent, "env": turned_env(env, self.url, self.key), **lives}
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
