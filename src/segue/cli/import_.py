"""``segue import``: a conversation made of an export."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from segue.cli.output import say


@click.command("import", short_help="Create a conversation from an export.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--key", metavar="K", help="Use this key. Default: the one it had.")
def command(file: Path, key: str | None) -> None:
    """Create a conversation from FILE, written by segue export --json (- for stdin), and print its key.

    Messages are imported, native sessions are not, so the first turn sends the conversation as text.
    """
    from segue.core.errors import Misuse
    from segue.turns import exchange
    from segue.turns.opening import opened

    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.expanduser().read_bytes()
    except OSError as error:
        raise Misuse(f"{file} cannot be read: {error.strerror}") from None
    export = exchange.read(data)
    with opened(os.environ) as store:
        say(exchange.take_in(store, export, key).key)
