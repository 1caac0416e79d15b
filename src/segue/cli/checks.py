"""The checks behind ``segue doctor``. Each looks at one thing and says what it found, and what to do."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from segue import __version__
from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.cli.agents import probe_cache
from segue.cli.logins import Finding, logins
from segue.config.homes import home_of
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.environment import child_environment, is_mark
from segue.core.errors import NotInstalled, SegueError
from segue.core.request import Runtime

AT_ONCE = 8


def examine(env: Mapping[str, str], cwd: Path) -> Iterator[Finding]:
    """All findings, in the order in which a newcomer would want them."""
    yield Finding("segue", "ok", f"segue {__version__} on Python {sys.version.split()[0]}")
    yield from _home(env)
    try:
        config = load(env, cwd)
    except SegueError as error:
        yield Finding("config", "bad", error.message, "fix that line; docs/configuration.md lists all keys")
        config = Config()
    else:
        yield from _config(env, config)
    yield from _surroundings(env)
    yield from _agents(env, config)
    yield from _accounts(env, config)


def _home(env: Mapping[str, str]) -> Iterator[Finding]:
    root = home_of(env).root
    there = root.exists()
    try:
        _try_out(root)
    except OSError as error:
        what = f"{root} cannot be written: {error.strerror}"
        yield Finding("home", "bad", what, "set SEGUE_HOME to a directory of your own")
        return
    if there and root.stat().st_mode & 0o077:
        yield Finding("home", "warn", f"{root} can be read by others", f"chmod 700 {root}")
    else:
        yield Finding("home", "ok", f"data in {root}" + ("" if there else " (none yet)"))


def _try_out(root: Path) -> None:
    """Whether it can be written, or made. Nothing of that stays."""
    if root.exists():
        with TemporaryFile(dir=root):
            return
    above = next(folder for folder in root.parents if folder.exists())
    with TemporaryDirectory(dir=above):
        pass


def _config(env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    file = home_of(env).config_file
    yield Finding(
        "config", "ok", f"configuration in {file}" + ("" if file.exists() else " (none yet: defaults)")
    )
    for notice in config.notices:
        yield Finding("project", "warn", notice, "segue trust, if you know where this directory comes from")
    for variable in config.misspelt:
        yield Finding("variable", "warn", variable, "correct or unset it")


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
            yield Finding("loopback", "ok", "127.0.0.1 is available (for segue rehearse)")
    except OSError as error:
        yield Finding("loopback", "bad", f"127.0.0.1 is not available: {error}", "ip link set lo up")


def _agents(env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    """All agents are looked at together; each one's findings come in its turn."""
    cache = probe_cache(env) if home_of(env).root.is_dir() else None
    usable = False
    with ThreadPoolExecutor(AT_ONCE) as pool:
        names = registry.imported(config)
        for name, found in zip(names, pool.map(lambda n: _look(n, env, config, cache), names), strict=True):
            usable |= name != "rehearsal" and found[0].level in ("ok", "warn")
            yield from found
    if not usable:
        how = "npm install -g @anthropic-ai/claude-code; meanwhile --agent rehearsal works without any"
        yield Finding("agents", "warn", "no coding agent is installed", how)


def _look(name: str, env: Mapping[str, str], config: Config, cache: Path | None) -> list[Finding]:
    try:
        agent = registry.get(name, config)
        child = child_environment(env, keys_withheld=agent.keys).env
        runtime = probe.probe(agent, env=child, configured=config.commands.get(name), cache=cache)
    except NotInstalled as error:
        what, _, how = error.message.partition("; install it with: ")
        return [Finding(name, "note", what, how)]
    except SegueError as error:
        return [Finding(name, "bad", error.message)]
    return list(_agent(agent, runtime, env, config))


def _agent(agent: Agent, runtime: Runtime, env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    where = "built in" if getattr(agent, "builtin", None) else runtime.command[0]
    known = runtime.version is not None or not agent.probes
    yield Finding(
        agent.name,
        "ok" if known else "warn",
        f"{agent.label} {runtime.version or 'of unknown version'}, {where}",
    )
    if not runtime.capabilities.resume:
        yield Finding(
            agent.name, "note", f"{agent.label} cannot resume its sessions: the history is sent as text"
        )
    for note in agent.notes:
        yield Finding(agent.name, "note", note)
    accounts = {name: one for name, one in config.accounts.items() if one.agent == agent.name}
    named = accounts or {"": Account(agent=agent.name)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: list(logins(agent, runtime, name, named[name], env)), named)
        yield from chain.from_iterable(found)


def _accounts(env: Mapping[str, str], config: Config) -> Iterator[Finding]:
    known = set(registry.names(config))
    for name, account in config.accounts.items():
        if account.agent not in known:
            what = f'account {name} belongs to "{account.agent}", which is not a known agent'
            yield Finding(
                "accounts", "bad", what, f"[accounts.{name}] agent = one of {', '.join(sorted(known))}"
            )
        if account.home and not Path(account.home).is_dir():
            what = f"the home of account {name}, {account.home}, does not exist yet"
            yield Finding("accounts", "note", what, "the CLI creates it on its first run; log in there")
        for variable in account.pass_env:
            if not env.get(variable):
                what = f"account {name} passes on {variable}, which is not set"
                yield Finding("accounts", "warn", what, f"export {variable}=…")
