"""Codex, OpenAI's agent."""
