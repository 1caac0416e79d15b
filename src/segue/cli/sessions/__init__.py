"""``segue sessions``: the sessions that the agents themselves store."""

from __future__ import annotations

import click

from segue.cli.commands import Commands

TABLE = {
    "ls": "List the sessions of this directory, or of all directories.",
    "show": "Read a session: what was said and done, page by page.",
    "search": "Search the text of all sessions.",
    "continue": "Continue a session as a conversation.",
    "check": "Check whether a resume would fail or cost too much.",
    "repair": "Write a repaired copy of a session beside it.",
    "restore": "Restore a session from the copy that Segue kept.",
    "prune": "Delete sessions that are no longer needed.",
}


@click.group("sessions", cls=Commands, table=TABLE, prefix="sessions.")
def command() -> None:
    """List, read, search, check, repair, restore or prune the sessions that the agents themselves store.

    Name a session by its id or the beginning of it (at least 4 characters), or by AGENT:ID if two agents have
    the same id.
    """
