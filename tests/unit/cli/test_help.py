"""What ``--help`` says."""

from __future__ import annotations

import re

import click
import pytest

from segue.cli.commands import cli
from segue.cli.run import command as run


def test_the_help_of_run_lists_the_exit_codes() -> None:
    help_text = run.get_help(click.Context(run, info_name="run"))
    codes = help_text.partition("Exit codes:")[2].partition("Options:")[0]
    assert re.findall(r"^ +(\d+)  ", codes, re.M) == ["0", "1", "2", "75", "124", "130"]


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_command_has_help(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_help(click.Context(command, info_name=name))
