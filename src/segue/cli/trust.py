"""``segue trust``: let the files of a project do what the user's own can."""

from __future__ import annotations

import os
from pathlib import Path

import click

from segue.cli.render.output import say


@click.command("trust", short_help="Trust a project directory.")
@click.argument("directory", type=click.Path(path_type=Path), default=".")
@click.option("--remove", is_flag=True, help="Stop trusting it.")
def command(directory: Path, remove: bool) -> None:
    """Let the files in DIRECTORY (default: here) do what your own can.

    Its segue.toml may declare commands, accounts and environments. A FLOW.toml in it, or below it in the same
    working tree, may let agents change files and run commands. Links in it may lead out of it. Without trust,
    a segue.toml can only set the model, instructions and limits, and a FLOW.toml can only let agents look,
    because a cloned repository is not your own code.
    """
    from segue.config import trust
    from segue.config.home import home_of
    from segue.core.errors import Misuse

    place = directory.expanduser()
    if not place.is_dir():
        raise Misuse(f"{place} is not a directory")
    home = home_of(os.environ, Path.cwd())
    (trust.untrust if remove else trust.trust)(home, place)
    say(f"{place.resolve()} is {'no longer ' if remove else ''}trusted")
