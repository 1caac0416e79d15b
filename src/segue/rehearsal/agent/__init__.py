"""The rehearsal agent, a small built-in coding-agent CLI: ``python -m segue.rehearsal.agent``."""
