"""Checks the set-up: directories, configuration, agents, logins. No secret is read.

Each finding says what was found, and what to do about it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Literal, NamedTuple

from segue import __version__
from segue.agents import registry
from segue.agents.base import Agent, KeepsLogin, TellsLogin
from segue.agents.probe import home_elsewhere
from segue.app.agents import AT_ONCE, place_of, probe_cache, probed
from segue.app.shapes import SetupFinding
from segue.config.home import home_of
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.errors import NotInstalled, SegueError
from segue.core.request import Runtime
from segue.turns.agent_choice import surroundings

LOGIN_SECONDS = 20
ASKED = {
    True: "is logged in",
    False: "says it is not logged in",
    None: "does not say whether it is logged in",
}
SEEN = {
    True: "has a login or a key",
    False: "is not logged in",
    None: "may or may not be logged in: it keeps its login where Segue does not look",
}


def examine(env: Mapping[str, str], cwd: Path) -> Iterator[SetupFinding]:
    """All findings, in the order that helps a newcomer most."""
    yield SetupFinding("segue", "ok", f"segue {__version__} on Python {sys.version.split()[0]}")
    yield from _home(env)
    try:
        config = load(env, cwd)
    except SegueError as error:
        yield SetupFinding(
            "config", "bad", error.message, "fix that line; docs/configuration.md lists all keys"
        )
        config = Config()
    else:
        yield from _config(env, config)
    yield from _surroundings(env)
    yield from _agents(env, config)
    yield from _accounts(env, config)


def _home(env: Mapping[str, str]) -> Iterator[SetupFinding]:
    root = home_of(env).root
    exists = root.exists()
    try:
        _try_out(root)
    except OSError as error:
        what = f"{root} cannot be written: {error.strerror}"
        yield SetupFinding("home", "bad", what, "set SEGUE_HOME to a directory of your own")
        return
    if exists and root.stat().st_mode & 0o077:
        yield SetupFinding("home", "warn", f"{root} can be read by others", f"chmod 700 {root}")
    else:
        yield SetupFinding("home", "ok", f"data in {root}" + ("" if exists else " (none yet)"))


def _try_out(root: Path) -> None:
    """Raise ``OSError`` if the directory cannot be written or created. Nothing is left behind."""
    if root.exists():
        with TemporaryFile(dir=root):
            return
    above = next(folder for folder in root.parents if folder.exists())
    with TemporaryDirectory(dir=above):
        pass


def _config(env: Mapping[str, str], config: Config) -> Iterator[SetupFinding]:
    file = home_of(env).config_file
    yield SetupFinding(
        "config", "ok", f"configuration in {file}" + ("" if file.exists() else " (none yet: defaults)")
    )
    for notice in config.notices:
        yield SetupFinding(
            "project", "warn", notice, "segue trust, if you know where this directory comes from"
        )
    for variable in config.misspelt:
        yield SetupFinding("variable", "warn", variable, "correct or unset it")
    for name in config.strangers:
        what = f'[carry] never names the account "{name}", which is not configured'
        yield SetupFinding("carry", "warn", what, "correct the name; if the account was removed, leave it")


def _surroundings(env: Mapping[str, str]) -> Iterator[SetupFinding]:
    marks = sorted(name for name in env if registry.variables().is_mark(name))
    if marks:
        names = ", ".join(marks[:3])
        yield SetupFinding(
            "nested", "note", f"this runs inside an agent's session ({names}); agents will not see that"
        )
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        yield SetupFinding("locale", "warn", "the locale is not UTF-8", "export LANG=C.UTF-8")
    try:
        with socket.create_server(("127.0.0.1", 0)):
            yield SetupFinding("loopback", "ok", "127.0.0.1 is available (for segue rehearse)")
    except OSError as error:
        yield SetupFinding("loopback", "bad", f"127.0.0.1 is not available: {error}", "ip link set lo up")


def _agents(env: Mapping[str, str], config: Config) -> Iterator[SetupFinding]:
    """Look at all agents at the same time; the findings come agent by agent."""
    cache = probe_cache(env) if home_of(env).root.is_dir() else None
    usable = False
    with ThreadPoolExecutor(AT_ONCE) as pool:
        names = registry.imported(config)
        for found in pool.map(lambda name: _look(name, env, config, cache), names):
            usable |= found.usable
            yield from found.findings
    if not usable:
        install = registry.preferred(config)[0].facts.install
        how = f"{install}; until then, --agent rehearsal works without one"
        yield SetupFinding("agents", "warn", "no coding agent is installed", how)


class _Looked(NamedTuple):
    findings: list[SetupFinding]
    usable: bool = False
    """It is a coding agent, and it is installed."""


def _look(name: str, env: Mapping[str, str], config: Config, cache: Path | None) -> _Looked:
    try:
        agent = registry.get(name, config)
        runtime = probed(agent, env, config, cache)
    except NotInstalled as error:
        what, _, how = error.message.partition("; install it with: ")
        return _Looked([SetupFinding(name, "note", what, how)])
    except SegueError as error:
        return _Looked([SetupFinding(name, "bad", error.message)])
    findings = list(_agent(agent, runtime, env, config))
    return _Looked(findings, not agent.facts.builtin and findings[0].level in ("ok", "warn"))


def _agent(agent: Agent, runtime: Runtime, env: Mapping[str, str], config: Config) -> Iterator[SetupFinding]:
    where = place_of(agent, runtime)
    known = runtime.version is not None or not agent.facts.probes
    yield SetupFinding(
        agent.facts.name,
        "ok" if known else "warn",
        f"{agent.facts.label} {runtime.version or 'of unknown version'}, {where}",
    )
    if not runtime.capabilities.resume:
        yield SetupFinding(
            agent.facts.name,
            "note",
            f"{agent.facts.label} cannot resume its sessions: the history is sent as text",
        )
    for note in agent.facts.notes:
        yield SetupFinding(agent.facts.name, "note", note)
    accounts = {name: one for name, one in config.accounts.items() if one.agent == agent.facts.name}
    named = accounts or {"": Account(agent=agent.facts.name)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: list(logins(agent, runtime, name, named[name], env)), named)
        yield from chain.from_iterable(found)


def _accounts(env: Mapping[str, str], config: Config) -> Iterator[SetupFinding]:
    known = set(registry.names(config))
    for name, account in config.accounts.items():
        if account.agent not in known:
            what = f'account {name} belongs to "{account.agent}", which is not a known agent'
            yield SetupFinding(
                "accounts", "bad", what, f"[accounts.{name}] agent = one of {', '.join(sorted(known))}"
            )
        if account.home and not Path(account.home).is_dir():
            what = f"the home of account {name}, {account.home}, does not exist yet"
            yield SetupFinding("accounts", "note", what, "the CLI creates it on its first run; log in there")
        for variable in account.pass_env:
            if not env.get(variable):
                what = f"account {name} passes on {variable}, which is not set"
                yield SetupFinding("accounts", "warn", what, f"export {variable}=…")


def logins(
    agent: Agent, runtime: Runtime, name: str, account: Account, env: Mapping[str, str]
) -> Iterator[SetupFinding]:
    """Whether one account is logged in, and the keys that are not passed to its agent."""
    child, home = surroundings(agent, account, env)
    shown = f" (account {name})" if name else ""
    withheld = [key for key in child.withheld if key in agent.facts.keys]
    way = f'pass_env = ["{withheld[0]}"] under [accounts.{name or "NAME"}] in config.toml' if withheld else ""
    if withheld:
        what = f"{withheld[0]} is not passed to {agent.facts.label}{shown}, which uses its own login"
        yield SetupFinding(agent.facts.name, "note", what, way)
    how = way or f"log in by running {runtime.command[0]} once"
    if agent.facts.login_check:
        says = _asked(agent, runtime, home, child.env)
        how += f"; not needed for a provider with its own key in {agent.facts.label}'s configuration"
        what = f"{agent.facts.label} {ASKED[says]}{shown}"
        yield (
            SetupFinding(agent.facts.name, "ok", what)
            if says
            else SetupFinding(agent.facts.name, "warn", what, how)
        )
    elif isinstance(agent, TellsLogin):
        says = agent.logged_in(home, child.env)
        what = f"{agent.facts.label} {SEEN[says]}{shown}"
        levels: dict[bool | None, Literal["ok", "note", "warn"]] = {True: "ok", None: "note", False: "warn"}
        yield SetupFinding(
            agent.facts.name, levels[says], what, "" if says is not False else _or_a_key(agent, how)
        )


def _or_a_key(agent: Agent, how: str) -> str:
    if how.startswith("pass_env") or not agent.facts.keys:
        return how
    return f'{how}, or give an account its key: pass_env = ["{agent.facts.keys[0]}"] under [accounts.NAME]'


def _asked(agent: Agent, runtime: Runtime, home: Path, env: Mapping[str, str]) -> bool | None:
    """Ask the CLI whether it is logged in. If it was never started, it is asked about an empty home instead:
    the answer is the same, and it leaves nothing behind."""
    argv = [*runtime.command, *agent.facts.login_check]
    files = agent.login_files(home, env) if isinstance(agent, KeepsLogin) else (home,)
    if any(file.exists() for file in files):
        return _logged_in(argv, env)
    with TemporaryDirectory(prefix="segue-login-", ignore_cleanup_errors=True) as empty:
        return _logged_in(argv, {**env, **home_elsewhere(agent, Path(empty))})


def _logged_in(argv: list[str], env: Mapping[str, str]) -> bool | None:
    """What the CLI's exit code says; None if it cannot be started or does not exit in time."""
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            argv, env=dict(env), stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
    except OSError:
        return None
    try:
        return process.wait(LOGIN_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
