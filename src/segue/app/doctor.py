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
from typing import NamedTuple

from segue import __version__
from segue.agents import registry
from segue.agents.base import Agent, KeepsLogin, TellsLogin
from segue.agents.probe import home_elsewhere
from segue.app.agents import AT_ONCE, place_of, probe_cache, probed
from segue.app.shapes import Level, SetupFinding
from segue.config.home import home_of
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.errors import Misuse, NotInstalled, SegueError
from segue.core.request import Runtime
from segue.core.verdicts import NOTHING, Said, say
from segue.system import git
from segue.turns.agent_choice import surroundings

LOGIN_SECONDS = 20


def examine(env: Mapping[str, str], cwd: Path) -> Iterator[SetupFinding]:
    """All findings, in the order that helps a newcomer most."""
    python = sys.version.split()[0]
    text = f"segue {__version__} on Python {python}"
    yield _found("segue", "ok", say(text, "doctor.segue", version=__version__, python=python))
    yield from _home(env)
    try:
        config = load(env, cwd)
    except SegueError as error:
        fix = say("fix that line; docs/configuration.md lists all keys", "doctor.fix_line")
        yield _found("config", "bad", Said(error.message), fix)
        config = Config()
    else:
        yield from _config(env, config)
    yield from _surroundings(env)
    yield from _agents(env, config)
    yield from _accounts(env, config)


def _found(check: str, level: Level, what: Said, fix: Said = NOTHING) -> SetupFinding:
    return SetupFinding(check, level, what.text, fix.text, what.clauses, fix.clauses)


def _home(env: Mapping[str, str]) -> Iterator[SetupFinding]:
    root = home_of(env).root
    there = str(root)
    exists = root.exists()
    try:
        _try_out(root)
    except OSError as error:
        text, why = f"{root} cannot be written: {error.strerror}", str(error.strerror)
        fix = say("set SEGUE_HOME to a directory of your own", "doctor.set_home")
        yield _found("home", "bad", say(text, "doctor.unwritable", there=there, why=why), fix)
        return
    if exists and root.stat().st_mode & 0o077:
        what = say(f"{root} can be read by others", "doctor.readable", there=there)
        yield _found("home", "warn", what, Said(f"chmod 700 {root}"))
    elif exists:
        yield _found("home", "ok", say(f"data in {root}", "doctor.home", there=there))
    else:
        yield _found("home", "ok", say(f"data in {root} (none yet)", "doctor.home_new", there=there))


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
    if file.exists():
        what = say(f"configuration in {file}", "doctor.config", there=str(file))
    else:
        what = say(f"configuration in {file} (none yet: defaults)", "doctor.config_new", there=str(file))
    yield _found("config", "ok", what)
    for notice in config.notices:
        fix = say("segue trust, if you know where this directory comes from", "doctor.trust")
        yield _found("project", "warn", notice, fix)
    for variable in config.misspelt:
        yield _found("variable", "warn", variable, say("correct or unset it", "doctor.unset"))
    for name in config.strangers:
        text = f'[carry] never names the account "{name}", which is not configured'
        fix = say("correct the name; if the account was removed, leave it", "doctor.correct_name")
        yield _found("carry", "warn", say(text, "doctor.stranger", name=name), fix)


def _surroundings(env: Mapping[str, str]) -> Iterator[SetupFinding]:
    marks = sorted(name for name in env if registry.variables().is_mark(name))
    if marks:
        names = ", ".join(marks[:3])
        text = f"this runs inside an agent's session ({names}); agents will not see that"
        yield _found("nested", "note", say(text, "doctor.nested", names=names))
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        what = say("the locale is not UTF-8", "doctor.locale")
        yield _found("locale", "warn", what, Said("export LANG=C.UTF-8"))
    yield _git(env)
    try:
        with socket.create_server(("127.0.0.1", 0)):
            text = "127.0.0.1 is available (for segue rehearse)"
            yield _found("loopback", "ok", say(text, "doctor.loopback"))
    except OSError as error:
        what = say(f"127.0.0.1 is not available: {error}", "doctor.no_loopback", why=str(error))
        yield _found("loopback", "bad", what, Said("ip link set lo up"))


def _git(env: Mapping[str, str]) -> SetupFinding:
    try:
        found = git.version(env)
    except Misuse as error:
        text = f"git does not work: {error.message}"
        return _found("git", "warn", say(text, "doctor.broken_git", why=error.message))
    if found is None:
        fix = say("install git; only segue review needs it", "doctor.install_git")
        return _found("git", "note", say("git is not installed", "doctor.no_git"), fix)
    return _found("git", "ok", say(f"git {found} (for segue review)", "doctor.git", version=found))


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
        text = f"{install}; until then, --agent rehearsal works without one"
        what = say("no coding agent is installed", "doctor.no_agents")
        yield _found("agents", "warn", what, say(text, "doctor.install", command=install))


class _Looked(NamedTuple):
    findings: list[SetupFinding]
    usable: bool = False
    """It is a coding agent, and it is installed."""


def _look(name: str, env: Mapping[str, str], config: Config, cache: Path | None) -> _Looked:
    try:
        agent = registry.get(name, config)
    except SegueError as error:
        return _Looked([_found(name, "bad", Said(error.message))])
    try:
        runtime = probed(agent, env, config, cache)
    except NotInstalled as error:
        return _Looked([_missing(agent, error)])
    except SegueError as error:
        return _Looked([_found(name, "bad", Said(error.message))])
    findings = list(_agent(agent, runtime, env, config))
    return _Looked(findings, not agent.facts.builtin and findings[0].level in ("ok", "warn"))


def _missing(agent: Agent, error: NotInstalled) -> SetupFinding:
    text, _, command = error.message.partition("; install it with: ")
    what = Said(text)  # about a command that is configured
    if command:
        names = ", ".join(agent.facts.programs)
        what = say(text, "doctor.not_installed", agent=agent.facts.label, names=names)
    return _found(agent.facts.name, "note", what, Said(command))


def _agent(agent: Agent, runtime: Runtime, env: Mapping[str, str], config: Config) -> Iterator[SetupFinding]:
    known = runtime.version is not None or not agent.facts.probes
    name, label = agent.facts.name, agent.facts.label
    yield _found(name, "ok" if known else "warn", _installed(agent, runtime))
    if not runtime.capabilities.resume:
        text = f"{label} cannot resume its sessions: the history is sent as text"
        yield _found(name, "note", say(text, "doctor.no_resume", agent=label))
    for note in agent.facts.notes:
        yield _found(name, "note", note if isinstance(note, Said) else Said(note))
    accounts = {name: one for name, one in config.accounts.items() if one.agent == agent.facts.name}
    named = accounts or {"": Account(agent=agent.facts.name)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: list(logins(agent, runtime, name, named[name], env)), named)
        yield from chain.from_iterable(found)


def _installed(agent: Agent, runtime: Runtime) -> Said:
    where, label, version = place_of(agent, runtime), agent.facts.label, runtime.version
    text = f"{label} {version or 'of unknown version'}, {where}"
    if version is None:
        return say(text, "doctor.agent_unknown", agent=label, there=where)
    if agent.facts.builtin:
        return say(text, "doctor.agent_builtin", agent=label, version=version)
    return say(text, "doctor.agent", agent=label, version=version, there=where)


def _accounts(env: Mapping[str, str], config: Config) -> Iterator[SetupFinding]:
    known = set(registry.names(config))
    for name, account in config.accounts.items():
        if account.agent not in known:
            text = f'account {name} belongs to "{account.agent}", which is not a known agent'
            what = say(text, "doctor.unknown_agent", name=name, agent=account.agent)
            names = ", ".join(sorted(known))
            text = f"[accounts.{name}] agent = one of {names}"
            yield _found("accounts", "bad", what, say(text, "doctor.one_of", name=name, names=names))
        if account.home and not Path(account.home).is_dir():
            text = f"the home of account {name}, {account.home}, does not exist yet"
            what = say(text, "doctor.no_home", name=name, there=account.home)
            fix = say("the CLI creates it on its first run; log in there", "doctor.created")
            yield _found("accounts", "note", what, fix)
        for variable in account.pass_env:
            if not env.get(variable):
                text = f"account {name} passes on {variable}, which is not set"
                what = say(text, "doctor.not_set", name=name, variable=variable)
                yield _found("accounts", "warn", what, Said(f"export {variable}=…"))


def logins(
    agent: Agent, runtime: Runtime, name: str, account: Account, env: Mapping[str, str]
) -> Iterator[SetupFinding]:
    """Whether one account is logged in, and the keys that are not passed to its agent."""
    child, home = surroundings(agent, account, env)
    check, label = agent.facts.name, agent.facts.label
    under = say(f" (account {name})", "doctor.account", name=name) if name else NOTHING
    withheld = [key for key in child.withheld if key in agent.facts.keys]
    how = _pass_on(withheld[0], name) if withheld else _log_in(runtime.command[0])
    if withheld:
        text = f"{withheld[0]} is not passed to {label}{under.text}, which uses its own login"
        what = say(text, "doctor.withheld", variable=withheld[0], agent=label)
        yield _found(check, "note", Said(what.text, what.clauses + under.clauses), how)
    if agent.facts.login_check:
        says = _asked(agent, runtime, home, child.env)
        own = f"; not needed for a provider with its own key in {label}'s configuration"
        how += say(own, "doctor.own_key", agent=label)
        what = _what_it_says(label, says) + under
        yield _found(check, "ok", what) if says else _found(check, "warn", what, how)
    elif isinstance(agent, TellsLogin):
        says = agent.logged_in(home, child.env)
        levels: dict[bool | None, Level] = {True: "ok", None: "note", False: "warn"}
        if says is False and not withheld:
            how += _or_a_key(agent)
        fix = how if says is False else NOTHING
        yield _found(check, levels[says], _what_is_seen(label, says) + under, fix)


def _what_it_says(agent: str, says: bool | None) -> Said:
    if says:
        return say(f"{agent} is logged in", "doctor.logged_in", agent=agent)
    if says is None:
        text = f"{agent} does not say whether it is logged in"
        return say(text, "doctor.says_nothing", agent=agent)
    return say(f"{agent} says it is not logged in", "doctor.says_not", agent=agent)


def _what_is_seen(agent: str, seen: bool | None) -> Said:
    if seen:
        return say(f"{agent} has a login or a key", "doctor.has_login", agent=agent)
    if seen is None:
        text = f"{agent} may or may not be logged in: it keeps its login where Segue does not look"
        return say(text, "doctor.login_unknown", agent=agent)
    return say(f"{agent} is not logged in", "doctor.not_logged_in", agent=agent)


def _pass_on(key: str, account: str) -> Said:
    setting, section = f'pass_env = ["{key}"]', f"[accounts.{account or 'NAME'}]"
    text = f"{setting} under {section} in config.toml"
    return say(text, "doctor.pass_on", setting=setting, section=section)


def _log_in(program: str) -> Said:
    return say(f"log in by running {program} once", "doctor.log_in", command=program)


def _or_a_key(agent: Agent) -> Said:
    if not agent.facts.keys:
        return NOTHING
    setting = f'pass_env = ["{agent.facts.keys[0]}"]'
    text = f", or give an account its key: {setting} under [accounts.NAME]"
    return say(text, "doctor.or_key", setting=setting)


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
