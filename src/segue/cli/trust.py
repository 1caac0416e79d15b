"""``segue trust``: allow a project's ``segue.toml`` everything that the user's own configuration can do."""

from __future__ import annotations

import os
from pathlib import Path

import click

from segue.cli.render.output import say


@click.command("trust", short_help="Trust a project directory.")
@click.argument("directory", type=click.Path(path_type=Path), default=".")
@click.option("--remove", is_flag=True, help="Stop trusting it.")
def command(directory: Path, remove: bool) -> None:
    """Let the segue.toml in DIRECTORY (default: here) declare commands, accounts and environments.

    Without trust, it can only set the model, instructions and limits, because a cloned repository is not your
    own code.
    """
    from segue.config import trust
    from segue.config.home import home_of
    from segue.core.errors import Misuse

    place = directory.expanduser()
    if not place.is_dir():
        raise Misuse(f"{place} is not a directory")
    if not remove and not (place / "segue.toml").is_file():
        raise Misuse(f"there is no segue.toml in {place.resolve()}; nothing to trust")
    home = home_of(os.environ, Path.cwd())
    (trust.untrust if remove else trust.trust)(home, place)
    say(f"{place.resolve()} is {'no longer ' if remove else ''}trusted")
