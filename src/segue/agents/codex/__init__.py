"""Codex, OpenAI's agent."""

from collections.abc import Mapping
from pathlib import Path

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables(
    keys=("OPENAI_API_KEY",),
    marks=frozenset(
        {
            "CODEX_CI",
            "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
            "CODEX_PERMISSION_PROFILE",
            "CODEX_SANDBOX",
            "CODEX_SANDBOX_NETWORK_DISABLED",
            "CODEX_SESSION_ID",
            "CODEX_THREAD_ID",
            "CODEX_TOOL_CALL_ID",
        }
    ),
    mark_prefixes=("CODEX_MANAGED_BY_", "CODEX_NETWORK_PROXY_"),
    providers=("OPENAI_", "CODEX_", "AZURE_OPENAI_"),
)


def default_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("CODEX_HOME") or Path(env.get("HOME", "~")).expanduser() / ".codex")
