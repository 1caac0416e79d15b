"""``segue export``: a conversation as Markdown or JSON, on stdout."""

from __future__ import annotations

import os
from pathlib import Path

import click

from segue.cli.options import complete_keys
from segue.cli.output import answer


@click.command("export", short_help="Write a conversation as Markdown or JSON.")
@click.argument("key", shell_complete=complete_keys)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, which segue import accepts.")
def command(key: str, as_json: bool) -> None:
    """Write the conversation KEY to stdout: as Markdown to read, or with --json to import again.

    Native session ids are written as short hashes: enough to compare them, not enough to resume them.
    """
    from segue.core.keys import conversation_key
    from segue.turns import changes, exchange
    from segue.turns.foreseen import foreseen
    from segue.turns.opening import opened

    with opened(os.environ) as store:
        conversation = changes.known(store, conversation_key(key))
        export = exchange.export_of(foreseen(store, conversation, os.environ, Path.cwd()), conversation)
    answer(exchange.json(export) if as_json else exchange.markdown(export))
