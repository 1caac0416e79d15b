"""Mistral Vibe, in its two protocols: 3.x, and 2.x which tells the session's id only on disk."""
