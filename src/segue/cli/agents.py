"""``segue agents``: the known agents, where they are, what they can do, and their accounts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.render.output import say, say_json, width_of

if TYPE_CHECKING:
    from segue import AgentShown
    from segue.core.request import Capabilities

NARROWEST = 20
"""The column with the details of an agent is at least this wide."""


@click.command("agents", short_help="List the agents.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> None:
    """List the agents: where each was found, its version, what it can do, and its accounts."""
    from segue.app.agents import survey, with_models
    from segue.cli.caller import open_here
    from segue.core.errors import SegueError

    agents = survey(os.environ, Path.cwd())
    if as_json:
        with suppress(SegueError, OSError), open_here() as workspace:  # without it, the rest is still known
            agents = with_models(agents, workspace)
        say_json(agents)
    else:
        for line in lines(agents, width_of(sys.stdout)):
            say(line)


def abilities(can: Capabilities) -> list[str]:
    """What a version can do, in words."""
    named = {
        "resume": can.resume,
        "fork": can.fork,
        "branch": can.branch,
        "choose id": can.choose_id,
        "no-save": can.no_save,
        "questions": can.questions,
        "max turns": can.max_turns,
        "budget": can.budget,
    }
    return [name for name, able in named.items() if able]


def lines(agents: Sequence[AgentShown], width: int) -> Iterator[str]:
    """One line per agent, and below it what it can do, its accounts, or how to install it."""
    from segue.cli.render.table import columns, joined, padded

    table = [("agent", "version", [["found"]])]
    table += [(one.agent, one.version or "–", _details(one)) for one in agents]
    names = max(columns(name) for name, _, _ in table)
    versions = max(columns(version) for _, version, _ in table)
    for name, version, details in table:
        head = f"{padded(name, names)}  {padded(version, versions)}  "
        below = " " * columns(head)
        room = max(width - columns(head), NARROWEST)
        wrapped = chain.from_iterable(joined(parts, room, 2, " ") for parts in details)
        for at, line in enumerate(wrapped):
            yield (below if at else head) + line


def _details(one: AgentShown) -> list[list[str]]:
    """The lines, each as the parts that it can be wrapped between."""
    from segue.cli.render.words import below_home, one_line

    where = below_home(one.path) if one.path else one_line(one.problem or "")
    able = abilities(one.capabilities) if one.capabilities else []
    first = [where] if one.path else where.replace("; install it", "\ninstall it").split("\n")
    details = [[line] if one.path else line.split() for line in first]
    details += [["can", *_listed(able)]] if able else []
    return [*details, ["accounts:", *_listed(one.accounts)]] if one.accounts else details


def _listed(names: Sequence[str]) -> list[str]:
    return [*(f"{name}," for name in names[:-1]), names[-1]]
