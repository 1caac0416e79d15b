"""The accounts in ``config.toml``: add and remove them, choose defaults, bind directories.

Only the user's own file is changed. Accounts from variables and from a project's file can be used, but not
changed here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents import registry
from segue.config.home import home_of, user_home
from segue.config.load import own_config
from segue.config.schema import Account, Config, is_name
from segue.config.source import read_file
from segue.config.toml_edit import GONE, Change
from segue.config.user_file import change_config
from segue.core.errors import Misuse, NotFound
from segue.turns.shared_login import shared_login

NAME_RULE = 'use up to 64 letters, digits, ".", "_" and "-"'
RESERVED = "none"
"""``--account none`` means the agent's own login."""


def known_account(config: Config, name: str) -> Account:
    """The account of that name. Raises ``NotFound``."""
    if name not in config.accounts:
        names = ", ".join(sorted(config.accounts)) or "none"
        raise NotFound(
            f'there is no account "{name}" (known: {names}); segue account add {name} --agent AGENT'
        )
    return config.accounts[name]


def add(env: Mapping[str, str], name: str, account: Account) -> None:
    """Write a new account. Raises ``Misuse`` if its name, its agent or its login is not possible."""
    config = own_config(env)
    if not is_name(name) or name == RESERVED:
        raise Misuse(f'"{name}" cannot be the name of an account: {NAME_RULE}, and not "{RESERVED}"')
    if name in config.accounts:
        raise Misuse(f'there is an account "{name}" already; remove it first: segue account rm {name}')
    agent = registry.get(account.agent, config)
    if account.home is not None:
        _check_home(Path(account.home))
        agent.home_env(Path(account.home))
    together = msgspec.structs.replace(config, accounts={**config.accounts, name: account})
    if (reason := shared_login(agent, name, account, together, env)) is not None:
        raise Misuse(reason)
    fields: dict[str, Any] = {
        "agent": account.agent,
        "home": None if account.home is None else _shown(account.home, env),
        "env": account.env,
        "pass_env": list(account.pass_env),
    }
    change_config(env, [Change(("accounts", name, key), value) for key, value in fields.items() if value])


def rm(env: Mapping[str, str], name: str) -> None:
    """Remove an account, and make it nobody's default. Its home and its login stay as they are. If what was
    said under it must never leave it, that still holds."""
    tables = _tables(env)
    _own_entry(tables, env, name)
    changes = [Change(("accounts", name), GONE)]
    defaults = tables.get("defaults", {})
    if defaults.get("account") == name:
        changes.append(Change(("defaults", "account"), GONE))
    carry = tables.get("carry", {})
    if tables["accounts"][name].get("carry_out") == "never" and name not in carry.get("closed", []):
        changes.append(Change(("carry", "closed"), [*carry.get("closed", []), name]))
    agents = [agent for agent, chosen in defaults.get("accounts", {}).items() if chosen == name]
    change_config(env, changes + [Change(("defaults", "accounts", agent), GONE) for agent in agents])


def make_default(env: Mapping[str, str], name: str, *, remove: bool = False) -> None:
    """Use the account whenever its agent is used and none is named."""
    config = own_config(env)
    agent = known_account(config, name).agent
    changes = []
    overall = _tables(env).get("defaults", {}).get("account")
    if remove:
        if not is_default(config, name):
            raise Misuse(f'"{name}" is not the default account of {agent}')
        if overall == name:
            changes.append(Change(("defaults", "account"), GONE))
        if config.defaults.accounts.get(agent) == name:
            changes.append(Change(("defaults", "accounts", agent), GONE))
    else:
        changes.append(Change(("defaults", "accounts", agent), name))
        if overall in config.accounts and config.accounts[overall].agent == agent and overall != name:
            changes.append(Change(("defaults", "account"), name))
    change_config(env, changes)


def is_default(config: Config, name: str) -> bool:
    """Whether the account is the one that its agent uses if none is named."""
    agent, chosen = config.accounts[name].agent, config.defaults
    own = chosen.accounts.get(agent)
    if own is None and chosen.account in config.accounts and config.accounts[chosen.account].agent == agent:
        own = chosen.account
    return name == (own if own is not None else agent)


def bind(env: Mapping[str, str], name: str | None, directory: Path) -> None:
    """Use the account in the directory and below it; None: no longer use any."""
    tables = _tables(env)
    if name is not None:
        _own_entry(tables, env, name)
        if not directory.is_dir():
            raise Misuse(f"{directory} is not a directory")
    place = os.path.realpath(directory)
    changes = []
    for other, entry in tables.get("accounts", {}).items():
        bound = entry.get("directories", [])
        kept = [each for each in bound if not _is_same(each, place, env)]
        wanted = [*kept, _shown(place, env)] if other == name else kept
        if wanted != bound:
            changes.append(Change(("accounts", other, "directories"), wanted or GONE))
    if name is None and not changes:
        raise Misuse(f"{place} is not bound to an account; segue account ls lists what is")
    change_config(env, changes)


def _tables(env: Mapping[str, str]) -> dict[str, Any]:
    """The user's own file, as it is written."""
    own_config(env)  # says in one line what is wrong with it
    source = read_file(home_of(env).config_file)
    return {} if source is None else source.tables


def _own_entry(tables: Mapping[str, Any], env: Mapping[str, str], name: str) -> Any:
    """What the user's file says about the account."""
    if name in tables.get("accounts", {}):
        return tables["accounts"][name]
    known_account(own_config(env), name)
    raise Misuse(f'the account "{name}" is set by variables (SEGUE_ACCOUNTS_…), not in config.toml')


def _check_home(home: Path) -> None:
    if not home.is_absolute():
        raise Misuse(f"the home {home} must be absolute")
    if home.exists() and not home.is_dir():
        raise Misuse(f"the home {home} is not a directory")


def _shown(path: str, env: Mapping[str, str]) -> str:
    """With ``~`` for the user's home, so that the file can move to another machine."""
    home = str(user_home(env)).rstrip("/")
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _is_same(written: str, place: str, env: Mapping[str, str]) -> bool:
    """Whether a directory in the file is this one, by identity; if it is gone, by its path."""
    path = str(user_home(env)) + written[1:] if written.startswith("~") else written
    try:
        return os.path.samefile(path, place)
    except OSError:
        return os.path.realpath(path) == place


def checked_account(
    agent: str, home: Path | None, variables: Mapping[str, str], pass_env: Sequence[str]
) -> Account:
    """The account, or ``Misuse`` for the name or the value of a variable that cannot be one."""
    try:
        return Account(
            agent=agent,
            home=None if home is None else os.path.abspath(home),
            env=dict(variables),
            pass_env=tuple(dict.fromkeys(pass_env)),
        )
    except ValueError as error:
        raise Misuse(f"the account {error}") from None
