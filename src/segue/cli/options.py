"""Click's side of the options of a turn, which are defined in ``turn_options``; completion of arguments."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click

from segue.cli.caller import open_here
from segue.cli.turn_options import ANY, MOST, NONE, Option, duration_s, split_native, without_gaps

NATIVE = "segue.native"
F = TypeVar("F", bound=Callable[..., Any])


class Amount(click.FloatRange):
    """A finite number: ``inf`` and ``nan`` are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        if number > MOST:
            self.fail(f"{value} is too large", param, ctx)
        return number


class Budget(Amount):
    """Money above 0, or ``none``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == NONE else super().convert(value, param, ctx)


class Park(click.ParamType[Any]):
    """A duration, or nothing."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == ANY or isinstance(value, bool):
            return True
        try:
            return duration_s(str(value))
        except ValueError:
            self.fail(f"{value} is not a duration; use seconds, or 30m, 5h, 2d", param, ctx)


class TurnCommand(click.Command):
    """What follows ``--`` belongs to the agent's CLI, and is removed before our own options are parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, ctx.meta[NATIVE] = split_native(args)
        return super().parse_args(ctx, without_gaps(own))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- AGENT_ARGS...]"]


def native_args(ctx: click.Context) -> tuple[str, ...]:
    """What followed ``--``."""
    found: tuple[str, ...] = ctx.meta.get(NATIVE, ())
    return found


def complete_keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.app.conversations import keys

    with open_here() as workspace:
        return [key for key in keys(workspace) if key.startswith(incomplete)]


def complete_agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.app.agents import agent_names

    return [name for name in agent_names(os.environ, Path.cwd()) if name.startswith(incomplete)]


def complete_accounts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from segue.config.load import load

    return [name for name in load(os.environ, Path.cwd()).accounts if name.startswith(incomplete)]


_COMPLETE = {"": None, "agents": complete_agents, "accounts": complete_accounts}


def take(*options: Option) -> Callable[[F], F]:
    """Add these options to a command, in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = _click_option(option)(function)
        return function

    return add


def _click_option(option: Option) -> Callable[[F], F]:
    names = [option.flag, *filter(None, (option.short, option.name))]
    if option.kind == "flag":
        return click.option(*names, is_flag=True, help=option.help)
    return click.option(
        *names,
        metavar=option.metavar,
        type=_type(option),
        multiple=option.multiple,
        shell_complete=_COMPLETE[option.complete],
        help=option.help,
    )


def _type(option: Option) -> click.ParamType[Any] | None:
    match option.kind:
        case "choice":
            return click.Choice(option.choices)
        case "count":
            return click.IntRange(min=option.least)
        case "amount":
            return Amount(min=option.least, min_open=option.above)
        case "budget":
            return Budget(min=option.least, min_open=option.above)
        case "park":
            return Park()
        case "path":
            return click.Path()
        case _:
            return None
