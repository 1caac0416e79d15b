"""Gemini CLI, Google's agent."""

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables(
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_CLOUD_API_KEY"),
    marks=frozenset({"GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"}),
    mark_prefixes=("GEMINI_CLI_IDE_",),
    providers=("GEMINI_", "GOOGLE_", "CODE_ASSIST_"),
    tuned=("GEMINI_",),
)
