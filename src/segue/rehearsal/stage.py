"""Sets the stage for a rehearsal: homes for the CLIs, a SEGUE_HOME whose accounts point at the model, and an
environment in which no road leads to a real provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.core.environment import is_mark
from segue.rehearsal.setup import point

AGENTS = ("claude", "codex", "gemini", "vibe")
RETRIES = 2
"""How often a CLI tries a failed request again: by themselves they go on for minutes."""

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
_ACCOUNTS = re.compile(r"SEGUE_(ACCOUNTS(_\w+)?|DEFAULTS_ACCOUNT)")
"""Accounts by variable would join those that point at the model."""
_DIRECT = "127.0.0.1,localhost"


class Staged(msgspec.Struct, frozen=True):
    """The variables for everything together, and for each CLI alone."""

    env: dict[str, str]
    by_agent: dict[str, dict[str, str]]


def stage(url: str, place: Path) -> Staged:
    """Write the homes under ``place``; nothing of the user's own is touched."""
    by_agent: dict[str, dict[str, str]] = {}
    accounts = []
    for agent in AGENTS:
        home = place / agent
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        pointing = point(agent, url, home, retries=RETRIES)
        pointing.write(home)
        by_agent[agent] = pointing.env | _fence(url).get(agent, {})
        accounts.append(_account(agent, home, by_agent[agent]))
    segue = place / "segue"
    segue.mkdir(exist_ok=True, mode=0o700)
    (segue / "config.toml").write_text("\n".join(accounts), encoding="utf-8")
    merged = {name: value for env in by_agent.values() for name, value in env.items()}
    direct = {"NO_PROXY": _DIRECT, "no_proxy": _DIRECT}
    return Staged({**merged, **direct, "SEGUE_HOME": str(segue)}, by_agent)


def _fence(url: str) -> dict[str, dict[str, str]]:
    """What keeps a project's own files (settings, ``.env``) from leading away: variables win over them."""
    return {
        "claude": {"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1"},
        "gemini": {
            "GOOGLE_GENAI_USE_VERTEXAI": "false",
            "GOOGLE_GENAI_USE_GCA": "false",
            "GOOGLE_VERTEX_BASE_URL": url,
            "CODE_ASSIST_ENDPOINT": url,
        },
    }


def leads_away(name: str) -> bool:
    """Whether a variable could make a CLI call somebody else than the model."""
    if is_mark(name) or _ACCOUNTS.fullmatch(name) or name.upper().endswith("_PROXY"):
        return True
    return name.startswith(_PROVIDERS) and not _TUNING.fullmatch(name)


def on_stage(env: Mapping[str, str], staged: Staged) -> dict[str, str]:
    """The caller's environment for a command of the rehearsal."""
    return {name: value for name, value in env.items() if not leads_away(name)} | staged.env


def _account(agent: str, home: Path, env: dict[str, str]) -> str:
    """An account of the agent's own name is the one it uses unless told otherwise."""
    pairs = ", ".join(f"{name} = {_quoted(value)}" for name, value in env.items())
    return f"[accounts.{agent}]\nagent = {_quoted(agent)}\nhome = {_quoted(str(home))}\nenv = {{ {pairs} }}\n"


def _quoted(text: str) -> str:
    """A JSON string is a TOML string."""
    return msgspec.json.encode(text).decode()
