"""Gemini CLI, Google's agent."""

from collections.abc import Mapping
from pathlib import Path

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables(
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_CLOUD_API_KEY"),
    marks=frozenset({"GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"}),
    mark_prefixes=("GEMINI_CLI_IDE_",),
    providers=("GEMINI_", "GOOGLE_", "CODE_ASSIST_"),
    tuned=("GEMINI_",),
)


def default_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("GEMINI_CLI_HOME") or env.get("HOME") or "~").expanduser()
