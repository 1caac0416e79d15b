"""``segue agents``: which agents there are, where, what they can do, and their accounts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from segue.cli.render.output import say, say_json, width_of
from segue.core.request import Capabilities

if TYPE_CHECKING:
    from segue.config.schema import Config

NARROWEST = 20
"""What is told of an agent has at least so many columns."""


class Listed(msgspec.Struct, frozen=True):
    """One agent as it is shown; ``problem`` says why it cannot be used."""

    agent: str
    label: str
    path: str | None
    version: str | None
    distribution: str | None
    capabilities: Capabilities | None
    accounts: tuple[str, ...]
    problem: str | None = None


@click.command("agents", short_help="List the agents.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> None:
    """List the agents: where each was found, its version, what it can do, and its accounts."""
    found = survey(os.environ, Path.cwd())
    if as_json:
        say_json(found)
    else:
        for line in lines(found, width_of(sys.stdout)):
            say(line)


def survey(env: Mapping[str, str], cwd: Path) -> list[Listed]:
    """Look for all agents at once; a probe is answered from the cache where nothing changed."""
    from concurrent.futures import ThreadPoolExecutor

    from segue.agents.registry import imported
    from segue.config.load import load

    config = load(env, cwd)
    cache = probe_cache(env)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda name: _look(name, config, cache, env), imported(config)))


def probe_cache(env: Mapping[str, str]) -> Path | None:
    """Where probes are remembered; nowhere, where the home cannot be written."""
    from segue.config.home import home_of

    home = home_of(env)
    try:
        home.make(home.root)
    except OSError:
        return None
    return home.probes if os.access(home.root, os.W_OK) else None


def _look(name: str, config: Config, cache: Path | None, env: Mapping[str, str]) -> Listed:
    from segue.agents import probe, registry
    from segue.core.environment import child_environment
    from segue.core.errors import SegueError

    accounts = tuple(key for key, account in config.accounts.items() if account.agent == name)
    try:
        agent = registry.get(name, config)
    except SegueError as error:
        return Listed(name, name, None, None, None, None, accounts, error.message)
    child = child_environment(env, registry.variables(), keys_withheld=agent.facts.keys).env
    try:
        runtime = probe.probe(agent, env=child, configured=config.commands.get(name), cache=cache)
    except SegueError as error:
        return Listed(name, agent.facts.label, None, None, None, None, accounts, error.message)
    path = "built in" if agent.facts.builtin else runtime.command[0]
    return Listed(
        name, agent.facts.label, path, runtime.version, runtime.distribution, runtime.capabilities, accounts
    )


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


def lines(found: Sequence[Listed], width: int) -> Iterator[str]:
    """Each agent on a line, and below it what it can do, its accounts, or how to get it."""
    from segue.cli.render.table import columns, joined, padded

    table = [("agent", "version", [["found"]])]
    table += [(one.agent, one.version or "–", _details(one)) for one in found]
    names = max(columns(name) for name, _, _ in table)
    versions = max(columns(version) for _, version, _ in table)
    for name, version, details in table:
        head = f"{padded(name, names)}  {padded(version, versions)}  "
        below = " " * columns(head)
        room = max(width - columns(head), NARROWEST)
        told = chain.from_iterable(joined(parts, room, 2, " ") for parts in details)
        for at, line in enumerate(told):
            yield (below if at else head) + line


def _details(one: Listed) -> list[list[str]]:
    """Line by line, each in parts between which it can be broken."""
    from segue.cli.render.words import below_home, one_line

    where = below_home(one.path) if one.path else one_line(one.problem or "")
    able = abilities(one.capabilities) if one.capabilities else []
    found = [where] if one.path else where.replace("; install it", "\ninstall it").split("\n")
    told = [[line] if one.path else line.split() for line in found]
    told += [["can", *_listed(able)]] if able else []
    return [*told, ["accounts:", *_listed(one.accounts)]] if one.accounts else told


def _listed(names: Sequence[str]) -> list[str]:
    return [*(f"{name}," for name in names[:-1]), names[-1]]
