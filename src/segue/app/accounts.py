"""Accounts: list and show them, add and remove them, choose defaults, bind directories, log in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from segue.accounts import book
from segue.accounts.fingerprint import fingerprint
from segue.accounts.login import LoginProcess, login_process
from segue.agents import registry
from segue.agents.decoding import TellsPays
from segue.app.account_shapes import AccountDetails, AccountShown, LimitsRefreshed
from segue.app.workspace import Workspace
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.errors import Misuse, SegueError
from segue.core.limits import shown
from segue.core.usage import seen_limits
from segue.system import clock
from segue.turns.agent_choice import identity_of, surroundings
from segue.turns.shared_login import shared_login

S = TypeVar("S", bound=AccountShown)


def accounts_of(config: Config) -> list[AccountShown]:
    """The configured accounts, by name."""
    return [_shown(name, each, config) for name, each in sorted(config.accounts.items())]


def ls(env: Mapping[str, str], cwd: Path) -> list[AccountShown]:
    return accounts_of(load(env, cwd))


def with_limits(workspace: Workspace, account: S) -> S:
    """The account, with what is known about the limits of its current login, and about what pays."""
    config = workspace.config
    try:
        agent = registry.get(account.agent, config)
    except SegueError:  # its agent is not known
        return account
    child, home = surroundings(agent, config.accounts[account.name], workspace.env)
    who = identity_of(agent, account.name, home, child, workspace.store).mark
    of = (account.agent, account.name, who)
    pays = agent.pays(home, child.env) if isinstance(agent, TellsPays) else "unknown"
    if pays == "unknown":
        pays = workspace.store.payer(*of)
    seen = shown(workspace.store.limits(*of), clock.now_ms())
    return msgspec.structs.replace(account, limits=seen, pays=pays)


def refresh(workspace: Workspace, name: str) -> LimitsRefreshed:
    """Ask the account's CLI for its limits now, and store what it tells."""
    from segue.accounts.limits import ask_limits

    account = book.known_account(workspace.config, name)
    agent = registry.get(account.agent, workspace.config)
    told = ask_limits(workspace.config, account, workspace.env)
    child, home = surroundings(agent, account, workspace.env)
    of = (account.agent, name, identity_of(agent, name, home, child, workspace.store).mark)
    now_ms = clock.now_ms()
    if told.limits:
        seen = seen_limits(told.limits, now_ms, "app_server")
        workspace.store.see_limits(*of, seen, "subscription", now_ms)
    return LimitsRefreshed(
        account=name, limits=shown(workspace.store.limits(*of), now_ms), why_not=told.problem
    )


def names(env: Mapping[str, str], cwd: Path) -> list[str]:
    """For completion."""
    return sorted(load(env, cwd).accounts)


def show(env: Mapping[str, str], cwd: Path, name: str) -> AccountDetails:
    config = load(env, cwd)
    account = book.known_account(config, name)
    known = msgspec.structs.asdict(_shown(name, account, config)) | _policies(name, account, config)
    try:
        agent = registry.get(account.agent, config)
    except Misuse as error:
        return AccountDetails(**known, problem=error.message)
    command = None
    with suppress(SegueError):
        command = login_process(config, account, env).shell
    return AccountDetails(
        **known,
        fingerprint=fingerprint(agent, account, env),
        problem=shared_login(agent, name, account, config, env),
        login_command=command,
    )


def add(
    env: Mapping[str, str],
    cwd: Path,
    name: str,
    *,
    agent: str,
    home: str | Path | None = None,
    variables: Mapping[str, str] | None = None,
    pass_env: Sequence[str] = (),
) -> AccountDetails:
    place = None if home is None else cwd / Path(home).expanduser()
    book.add(env, name, book.checked_account(agent, place, variables or {}, pass_env))
    return show(env, cwd, name)


def rm(env: Mapping[str, str], name: str) -> None:
    book.rm(env, name)


def default(env: Mapping[str, str], cwd: Path, name: str, *, remove: bool = False) -> AccountDetails:
    book.make_default(env, name, remove=remove)
    return show(env, cwd, name)


def bind(
    env: Mapping[str, str], cwd: Path, name: str | None, directory: str | Path | None
) -> list[AccountShown]:
    if "\0" in str(directory):
        raise Misuse("a directory cannot have a NUL character in its name")
    place = cwd if directory is None else cwd / Path(directory).expanduser()
    book.bind(env, name, Path(os.path.abspath(place)))
    return ls(env, cwd)


def login(env: Mapping[str, str], cwd: Path, name: str) -> LoginProcess:
    """What to start in a terminal. The home is created: some CLIs refuse one that does not exist."""
    config = load(env, cwd)
    return login_process(config, book.known_account(config, name), env)


def _policies(name: str, account: Account, config: Config) -> dict[str, Any]:
    pairs = [pair for pair in config.carry.never if name in pair]
    return {
        "carry_out": "never" if name in config.carry.closed else account.carry_out or config.carry.rule,
        "carry_in": account.carry_in or config.carry.rule,
        "never": tuple(sorted({other for pair in pairs for other in pair if other != name})),
        "on_limit": config.on_limit(name),
    }


def _shown(name: str, account: Account, config: Config) -> AccountShown:
    return AccountShown(
        name=name,
        agent=account.agent,
        home=account.home,
        env=tuple(sorted(account.env)),
        pass_env=tuple(sorted(account.pass_env)),
        default=book.is_default(config, name),
        directories=account.directories,
        budget=account.budget or None,
    )
