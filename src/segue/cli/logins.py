"""Whether an agent is logged in: as the CLI itself says, else as its settings show. No secret is read."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from segue.agents.base import Agent, KeepsLogin, TellsLogin
from segue.agents.probe import home_elsewhere
from segue.config.schema import Account
from segue.core.environment import child_environment
from segue.core.request import Runtime

LOGIN_SECONDS = 20
ASKED = {
    True: "is logged in",
    False: "says it is not logged in",
    None: "does not say whether it is logged in",
}
SEEN = {
    True: "has a login or a key",
    False: "is not logged in",
    None: "may be logged in or not: that stands where Segue does not look",
}


class Finding(msgspec.Struct, frozen=True):
    check: str
    level: Literal["ok", "note", "warn", "bad"]
    what: str
    fix: str = ""


def logins(
    agent: Agent, runtime: Runtime, name: str, account: Account, env: Mapping[str, str]
) -> Iterator[Finding]:
    """What is to be said of one account, and the keys that the agent will not see under it."""
    child = child_environment(
        env, keys_withheld=agent.keys, account_env=account.env, pass_env=account.pass_env
    )
    shown = f" (account {name})" if name else ""
    withheld = [key for key in child.withheld if key in agent.keys]
    way = f'pass_env = ["{withheld[0]}"] under [accounts.{name or "NAME"}] in config.toml' if withheld else ""
    if withheld:
        what = f"{withheld[0]} is not passed to {agent.label}{shown}, which uses its own login"
        yield Finding(agent.name, "note", what, way)
    how = way or f"log in by running {runtime.command[0]} once"
    home = Path(account.home) if account.home else agent.default_home(child.env)
    theirs = {**child.env, **agent.home_env(home)} if account.home else child.env
    if agent.login_check:
        says = _asked(agent, runtime, home, theirs)
        how += f"; not needed for a provider with its own key in {agent.label}'s configuration"
        what = f"{agent.label} {ASKED[says]}{shown}"
        yield Finding(agent.name, "ok", what) if says else Finding(agent.name, "warn", what, how)
    elif isinstance(agent, TellsLogin):
        says = agent.logged_in(home, theirs)
        what = f"{agent.label} {SEEN[says]}{shown}"
        levels: dict[bool | None, Literal["ok", "note", "warn"]] = {True: "ok", None: "note", False: "warn"}
        yield Finding(agent.name, levels[says], what, "" if says is not False else _or_a_key(agent, how))


def _or_a_key(agent: Agent, how: str) -> str:
    if how.startswith("pass_env") or not agent.keys:
        return how
    return f'{how}, or give an account its key: pass_env = ["{agent.keys[0]}"] under [accounts.NAME]'


def _asked(agent: Agent, runtime: Runtime, home: Path, env: Mapping[str, str]) -> bool | None:
    """What the CLI says of its home. Where it was never started it says the same of an empty one, and leaves
    nothing behind."""
    argv = [*runtime.command, *agent.login_check]
    files = agent.login_files(home, env) if isinstance(agent, KeepsLogin) else (home,)
    if any(file.exists() for file in files):
        return _logged_in(argv, env)
    with TemporaryDirectory(prefix="segue-login-", ignore_cleanup_errors=True) as empty:
        return _logged_in(argv, {**env, **home_elsewhere(agent, Path(empty))})


def _logged_in(argv: list[str], env: Mapping[str, str]) -> bool | None:
    """What the CLI's exit code says; None when it gives none in time."""
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
