"""A turn that may start: everything is settled that can be wrong before a process runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.agents import probe
from segue.agents.base import Agent
from segue.config.homes import Home, home_of
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.environment import ChildEnvironment, child_environment
from segue.core.errors import Misuse
from segue.core.keys import new_id
from segue.core.request import Request, Runtime
from segue.turns.asking import Ask, request_of
from segue.turns.who import who


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that may start."""

    run: str
    ask: Ask
    config: Config
    segue_home: Home
    agent: Agent
    account: str | None
    runtime: Runtime
    request: Request
    child: ChildEnvironment
    home: Path
    """The account's home: where the CLI keeps its login and its sessions."""


def prepare(ask: Ask, env: Mapping[str, str]) -> Prepared:
    """Settle everything that can be settled before a process starts."""
    cwd = _directory(ask.cwd)
    config = load(env, cwd)
    agent, account_name, account = who(ask.agent, ask.account, config, env)
    mine = account or Account(agent=agent.name)
    child = child_environment(env, keys_withheld=agent.keys, account_env=mine.env, pass_env=mine.pass_env)
    home = Path(mine.home) if mine.home else None
    if home is not None:
        child = msgspec.structs.replace(child, env={**child.env, **agent.home_env(home)})
    segue_home = home_of(env)
    command = config.commands.get(agent.name)
    runtime = probe.probe(agent, env=child.env, configured=command, cache=segue_home.probes)
    return Prepared(
        run=new_id(time.time_ns() // 1_000_000, os.urandom(10)),
        ask=ask,
        config=config,
        segue_home=segue_home,
        agent=agent,
        account=account_name,
        runtime=runtime,
        request=request_of(ask, config, agent, runtime, cwd),
        child=child,
        home=home or agent.default_home(child.env),
    )


def _directory(cwd: Path) -> Path:
    if not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        raise Misuse(f"the working directory {cwd} {what}")
    return Path(os.path.abspath(cwd))
