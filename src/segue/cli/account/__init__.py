"""``segue account``: the accounts of the agents."""

from __future__ import annotations

import click

from segue.cli.commands import Commands

TABLE = {
    "switch": "Continue a conversation under another account.",
    "audit": "Show what was carried over from one account to another.",
}


@click.group("account", cls=Commands, table=TABLE, prefix="account.")
def command() -> None:
    """Manage accounts: named identities of an agent, each with its own home and login.

    What was said under one account is not shown to another, unless you carry it over.
    """
