"""``segue init``: writes examples to start from."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.caller import open_here
from segue.cli.render.output import say


@click.group("init", short_help="Write an example to start from.")
def command() -> None:
    """Write an example to start from. Nothing is overwritten."""


@command.command("escalate", short_help="An example for segue escalate.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--agent", help="The agent of all tiers.")
def escalate(directory: Path, agent: str | None) -> None:
    """Write a FLOW.toml with three tiers, and their prompts, into DIRECTORY (default: here).

    The tiers look, make safe repairs, and make all repairs. Change the files to suit your services. Segue
    trusts the FLOW.toml that it wrote; after you have changed that file: segue trust DIRECTORY.
    """
    from segue.app.escalation_example import write_example

    with open_here() as workspace:
        for each in write_example(workspace, directory.expanduser(), agent):
            say(str(each))
