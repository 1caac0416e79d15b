"""Gemini CLI, Google's agent."""
