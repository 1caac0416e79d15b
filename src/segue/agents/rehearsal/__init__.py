"""The rehearsal agent, Segue's own small CLI: no account, no network."""

from segue.core.environment import AgentVariables

VARIABLES = AgentVariables()
