"""Claude Code, Anthropic's agent, and forks that speak the same protocol."""
