"""``segue sessions``: what the agents themselves have stored, treated alike."""

from __future__ import annotations

import click

from segue.cli.group import Commands

TABLE = {
    "ls": "List the sessions of this directory, or of all.",
    "show": "Read a session: what was said and done, page by page.",
    "search": "Search the words of all sessions.",
    "continue": "Go on with a session as a conversation.",
    "check": "Look for what would make a resume fail or cost too much.",
    "repair": "Write a sound copy of a session beside it.",
    "restore": "Bring a session back from the copy that Segue kept.",
    "prune": "Delete sessions that are not needed any more.",
}


@click.group("sessions", cls=Commands, table=TABLE, prefix="sessions_")
def command() -> None:
    """Find, read, search, check, repair, keep and prune the sessions that the agents themselves store.

    A session is named by its id or the beginning of it (4 characters or more), AGENT:ID where two agents
    have the same.
    """
