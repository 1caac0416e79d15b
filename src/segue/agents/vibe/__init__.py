"""Mistral Vibe, with its two protocols: 3.x, and 2.x, which shows the session's id only on disk."""

from collections.abc import Mapping
from pathlib import Path

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables(keys=("MISTRAL_API_KEY",), providers=("MISTRAL_", "VIBE_"))
"""It does not mark its child processes."""


def default_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("VIBE_HOME") or Path(env.get("HOME", "~")).expanduser() / ".vibe")
