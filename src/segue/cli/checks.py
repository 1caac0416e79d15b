"""The checks behind ``segue doctor``. Each looks at one thing and says what it found, and what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from segue import __version__
from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.homes import home_of
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.environment import child_environment, is_mark
from segue.core.errors import NotInstalled, SegueError
from segue.core.request import Runtime

LOGIN_SECONDS = 20


class Finding(msgspec.Struct, frozen=True):
    check: str
    level: Literal["ok", "note", "warn", "bad"]
    what: str
    fix: str = ""


def examine(env: Mapping[str, str], cwd: Path) -> Iterator[Finding]:
    """All findings, in the order in which a newcomer would want them."""
    yield Finding("segue", "ok", f"segue {__version__} on Python {sys.version.split()[0]}")
    yield from _home(env, cwd)
    try:
        config = load(env, cwd)
    except SegueError as error:
        yield Finding("config", "bad", error.message, "mend that line; docs/configuration.md lists all keys")
        config = Config()
    else:
        yield from _config(env, cwd, config)
    yield from _surroundings(env)
    yield from _agents(env, cwd, config)
    yield from _accounts(env, config)


def _home(env: Mapping[str, str], cwd: Path) -> Iterator[Finding]:
    home = home_of(env, cwd)
    root = home.root
    above = next(place for place in (root, *root.parents) if place.exists())
    if not os.access(above, os.W_OK):
        yield Finding("home", "bad", f"{root} cannot be written", "set SEGUE_HOME to a directory of your own")
    elif root.exists() and root.stat().st_mode & 0o077:
        yield Finding("home", "warn", f"{root} can be read by others", f"chmod 700 {root}")
    else:
        yield Finding("home", "ok", f"data in {root}")


def _config(env: Mapping[str, str], cwd: Path, config: Config) -> Iterator[Finding]:
    file = home_of(env, cwd).config_file
    yield Finding(
        "config", "ok", f"configuration in {file}" + ("" if file.exists() else " (none yet: defaults)")
    )
    for notice in config.notices:
        yield Finding("project", "warn", notice, "segue trust, if you know where this directory comes from")


def _surroundings(env: Mapping[str, str]) -> Iterator[Finding]:
    marks = sorted(name for name in env if is_mark(name))
    if marks:
        names = ", ".join(marks[:3])
        yield Finding(
            "nested", "note", f"this runs inside an agent's session ({names}); agents will not see that"
        )
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        yield Finding("locale", "warn", "the locale is not UTF-8", "export LANG=C.UTF-8")
    try:
        with socket.create_server(("127.0.0.1", 0)):
            yield Finding("loopback", "ok", "127.0.0.1 can be listened on (segue rehearse)")
    except OSError as error:
        yield Finding("loopback", "bad", f"127.0.0.1 cannot be listened on: {error}", "ip link set lo up")


def _agents(env: Mapping[str, str], cwd: Path, config: Config) -> Iterator[Finding]:
    usable = 0
    for name in registry.names(config):
        try:
            agent = registry.get(name, config)
            runtime = _runtime(agent, env, cwd, config)
        except NotInstalled as error:
            what, _, how = error.message.partition("; install it with: ")
            yield Finding(name, "note", what, how)
            continue
        except SegueError as error:
            yield Finding(name, "bad", error.message)
            continue
        usable += name != "rehearsal"
        yield from _agent(agent, runtime, env, config)
    if not usable:
        how = "npm install -g @anthropic-ai/claude-code; meanwhile --agent rehearsal works without any"
        yield Finding("agents", "warn", "no coding agent is installed", how)


def _runtime(agent: Agent, env: Mapping[str, str], cwd: Path, config: Config) -> Runtime:
    child = child_environment(env, keys_withheld=agent.keys).env
    command = config.commands.get(agent.name)
    return probe.probe(agent, env=child, configured=command, cache=home_of(env, cwd).probes)


def _agent(agent: Agent, runtime: Runtime, env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    where = "built in" if getattr(agent, "builtin", None) else runtime.command[0]
    known = runtime.version is not None
    yield Finding(
        agent.name,
        "ok" if known else "warn",
        f"{agent.label} {runtime.version or 'of unknown version'}, {where}",
    )
    if not runtime.capabilities.resume:
        yield Finding(agent.name, "note", f"{agent.label} cannot resume its sessions: history goes as text")
    for note in agent.notes:
        yield Finding(agent.name, "note", note)
    accounts = {name: one for name, one in config.accounts.items() if one.agent == agent.name}
    for name, account in (accounts or {"": Account(agent=agent.name)}).items():
        yield from _login(agent, runtime, name, account, env)


def _login(
    agent: Agent, runtime: Runtime, name: str, account: Account, env: Mapping[str, str]
) -> Iterator[Finding]:
    """Ask the CLI itself whether it is logged in, and name keys that it will not see."""
    child = child_environment(
        env, keys_withheld=agent.keys, account_env=account.env, pass_env=account.pass_env
    )
    shown = f" (account {name})" if name else ""
    withheld = [key for key in child.withheld if key in agent.keys]
    way = f'pass_env = ["{withheld[0]}"] under [accounts.{name or "NAME"}] in config.toml' if withheld else ""
    if withheld:
        yield Finding(
            agent.name,
            "note",
            f"{withheld[0]} is withheld from {agent.label}{shown}: its own login counts",
            way,
        )
    if not agent.login_check:
        return
    home = agent.home_env(Path(account.home)) if account.home else {}
    if _logged_in([*runtime.command, *agent.login_check], {**child.env, **home}):
        yield Finding(agent.name, "ok", f"{agent.label} is logged in{shown}")
    else:
        how = way or f"log in by running {runtime.command[0]} once"
        yield Finding(agent.name, "warn", f"{agent.label} is not logged in{shown}", how)


def _logged_in(argv: list[str], env: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LOGIN_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _accounts(env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    known = set(registry.names(config))
    for name, account in config.accounts.items():
        if account.agent not in known:
            what = f'account {name} is of "{account.agent}", and there is no such agent'
            yield Finding(
                "accounts", "bad", what, f"[accounts.{name}] agent = one of {', '.join(sorted(known))}"
            )
        if account.home and not Path(account.home).is_dir():
            what = f"the home of account {name}, {account.home}, does not exist yet"
            yield Finding("accounts", "note", what, "the CLI makes it at its first run; log in there")
        for variable in account.pass_env:
            if not env.get(variable):
                what = f"account {name} passes {variable} on, but it is not set"
                yield Finding("accounts", "warn", what, f"export {variable}=…")
