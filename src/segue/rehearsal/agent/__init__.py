"""The rehearsal agent, a small coding-agent CLI of our own: ``python -m segue.rehearsal.agent``."""
