"""The rehearsal agent, Segue's own small CLI: no account, no network."""

from collections.abc import Mapping
from pathlib import Path

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables()


def default_home(env: Mapping[str, str]) -> Path:
    """The same rule as the agent's own, repeated here so that the agent need not be loaded."""
    data = env.get("XDG_DATA_HOME") or f"{env.get('HOME') or '.'}/.local/share"
    return Path(env.get("REHEARSAL_HOME") or Path(data) / "segue-rehearsal")
