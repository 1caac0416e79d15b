"""A group of commands, each in a module of its own that is imported when the command is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

MODULES = {"import": "import_"}
"""Commands whose name cannot be a module's."""


class Commands(click.Group):
    """``table``: name and help of each command, so that ``--help`` imports none of them. The module of a
    command is ``segue.cli.<prefix><name>``."""

    def __init__(self, *args: Any, table: Mapping[str, str], prefix: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table, self.prefix = table, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.table:
            return None
        module = self.prefix + name
        command: click.Command = import_module(f"segue.cli.{MODULES.get(module, module)}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.table:
            from difflib import get_close_matches

            close = get_close_matches(name, self.table, 1)
            hint = f"did you mean {close[0]}?" if close else f"see {ctx.command_path} --help"
            raise click.UsageError(f'there is no command "{name}"; {hint}')
        return super().resolve_command(ctx, args)
