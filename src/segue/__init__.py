"""Segue carries a conversation across headless coding-agent runs."""

__version__ = "0.1.0"

__all__ = ["__version__"]
