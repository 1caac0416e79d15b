"""Claude Code, Anthropic's agent, and forks that speak the same protocol."""

from collections.abc import Mapping
from pathlib import Path

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables(
    keys=("ANTHROPIC_API_KEY",),
    marks=frozenset(
        {
            "CLAUDECODE",
            "CLAUDE_AGENT_SDK_VERSION",
            "CLAUDE_CODE_CHILD_SESSION",
            "CLAUDE_CODE_CLOUD_SESSION_ID",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_EXECPATH",
            "CLAUDE_CODE_HOST_SESSION_ID",
            "CLAUDE_CODE_INVOKED_SKILLS",
            "CLAUDE_CODE_REMOTE",
            "CLAUDE_CODE_SSE_PORT",
            "CLAUDE_CODE_TOOL_USE_ID",
            "CLAUDE_EFFORT",
            "CLAUDE_JOB_DIR",
            "CLAUDE_PID",
            "CLAUDE_PLUGIN_DATA",
            "CLAUDE_PLUGIN_ROOT",
            "CLAUDE_PROJECT_DIR",
            "CLAUDE_SESSION_ID",
            "CLAUDE_SKILL_DIR",
        }
    ),
    mark_prefixes=(
        "CLAUDE_BG_",
        "CLAUDE_BRIDGE_",
        "CLAUDE_CODE_BRIDGE_",
        "CLAUDE_CODE_REMOTE_SESSION_",
        "CLAUDE_CODE_SESSION_",
        "CLAUDE_RUNNER_",
    ),
    mark_affixes=(("CLAUDE_CODE_", "_FILE_DESCRIPTOR"),),  # open files, which a new process does not have
    providers=("ANTHROPIC_", "CLAUDE_", "AWS_BEARER_TOKEN_", "CLOUD_ML_", "VERTEX_"),
    tuned=("ANTHROPIC_", "CLAUDE_"),
)


def default_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", "~")).expanduser() / ".claude")
