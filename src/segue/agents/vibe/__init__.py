"""Mistral Vibe, in its two protocols: 3.x, and 2.x which tells the session's id only on disk."""

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables(keys=("MISTRAL_API_KEY",), providers=("MISTRAL_", "VIBE_"))
"""It marks nothing."""
