"""Who answers: the agent, account, model and role, as requested, else as the conversation remembers, else as
configured or installed; and who is logged in there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.agents.decoding import TellsRoute, hashed, hashed_secret
from segue.config.schema import Account, Config
from segue.core.environment import REHEARSAL_KEY, ChildEnvironment, Route, child_environment
from segue.core.errors import Misuse, NotInstalled
from segue.core.view import UNKNOWN, UNREADABLE, Identity, identify
from segue.store.records import Conversation
from segue.store.store import Store
from segue.turns.request import NONE, TurnRequest

LOOKED_AT = 100
"""How many turns of an agent are searched for its last account and model in a role."""
PAUSES_S = (0.05, 0.1, 0.2, 0.3)
"""A login file that is broken, or gone since the last turn, is read again after these pauses: its CLI may be
writing it."""


class Remembered(msgspec.Struct, frozen=True):
    """Who answers: as requested, else as before."""

    agent: str | None = None
    account: str | None = None
    """Empty: no account, as requested or as before. None: as configured."""
    model: str | None = None
    role: str = ""


def remembered_options(
    ask: TurnRequest, store: Store, known: Conversation | None, config: Config
) -> Remembered:
    """An account names its agent; an agent brings the role, account and model it last had here."""
    if known is None:
        return Remembered(ask.agent, _account(ask.account), _wanted(ask.model), _wanted(ask.role) or "")
    named = config.accounts.get(ask.account) if ask.account not in (None, NONE) else None
    agent = ask.agent or (named.agent if named is not None else known.agent) or None
    role = _wanted(ask.role, _role_of(agent, store, known)) or ""
    account, model = _last_of(agent, role, store, known)
    if ask.account not in (None, NONE) and ask.agent is None:
        model = model if ask.account == account else None
        return Remembered(None, ask.account, _wanted(ask.model, model), role)
    return Remembered(agent, _account(ask.account, account), _wanted(ask.model, model), role)


def _wanted(now: str | None, before: str | None = None) -> str | None:
    """What is requested now, else before; ``none`` resets what was requested before."""
    wanted = before if now is None else now
    return None if now == NONE else wanted


def _account(now: str | None, before: str | None = None) -> str | None:
    """The account now, else before. No account is remembered too: a later default does not change it."""
    return "" if now == NONE else before if now is None else now


def _role_of(agent: str | None, store: Store, known: Conversation) -> str:
    """The role in which this agent last ran here; none if it never did."""
    if agent in (None, known.agent):
        return known.role
    turns = store.turns_of(known.id, agent or "", LOOKED_AT)
    begun = [turn.voice.role for turn in turns if turn.state != "withdrawn"]
    return begun[-1] if begun else ""


def _last_of(
    agent: str | None, role: str, store: Store, known: Conversation
) -> tuple[str | None, str | None]:
    """The account and model with which this agent last ran here, in the same role if it had it before."""
    if (agent, role) == (known.agent, known.role):
        return known.account, known.model
    turns = store.turns_of(known.id, agent or "", LOOKED_AT)
    same = [turn for turn in turns if turn.voice.role == role] or turns
    return (same[-1].account, same[-1].model) if same else (None, None)


def resolve_agent(
    wanted_agent: str | None, wanted_account: str | None, config: Config, env: Mapping[str, str], cwd: Path
) -> tuple[Agent, str | None, Account | None]:
    """The agent and the account: as requested, else as the directory is bound, else as configured, else the
    first agent installed.

    An empty account is a request for none.
    """
    named = bound_account(wanted_agent, config, cwd) if wanted_account is None else wanted_account
    if named is None and wanted_agent is None:
        named = config.defaults.account
    account = _chosen_account(named, config) if named else None
    wanted = wanted_agent or (account.agent if account else config.defaults.agent)
    agent = registry.get(wanted, config) if wanted is not None else _installed(config, env)
    if account is None:
        return agent, *(_own_account(agent.facts.name, config) if wanted_account is None else (None, None))
    if agent.facts.name != account.agent:
        raise Misuse(f'the account "{named}" belongs to {account.agent}, not to {agent.facts.name}')
    return agent, named, account


def _chosen_account(name: str, config: Config) -> Account:
    if name not in config.accounts:
        names = ", ".join(config.accounts) or "none"
        raise Misuse(f'there is no account "{name}" in config.toml (known: {names})')
    return config.accounts[name]


def refuse_removed(ask: TurnRequest, known: Conversation | None, account: str | None, config: Config) -> None:
    """Raise ``Misuse`` if the account that the conversation had is no longer configured."""
    if ask.account is None and known is not None and account and account not in config.accounts:
        key = known.key
        names = ", ".join(config.accounts) or "none"
        how = (
            f"to continue under another one: segue account switch {key} ACCOUNT (none: the agent's own login)"
        )
        raise Misuse(f'{key} had the account "{account}", which is not configured (known: {names}); {how}')


def surroundings(
    agent: Agent, account: Account | None, env: Mapping[str, str]
) -> tuple[ChildEnvironment, Path]:
    """The environment that the CLI gets, and its home."""
    mine = account or Account(agent=agent.facts.name)
    child = child_environment(
        env,
        registry.variables(),
        keys_withheld=agent.facts.keys,
        account_env=mine.env,
        pass_env=mine.pass_env,
    )
    child = msgspec.structs.replace(child, user=mine.user)
    if not mine.home:
        return child, agent.default_home(child.env)
    home = Path(mine.home)
    return msgspec.structs.replace(child, env={**child.env, **agent.home_env(home)}), home


def refuse_shared_login(agent: Agent, name: str, config: Config, env: Mapping[str, str]) -> None:
    """Raise ``Misuse`` if another account of the agent has the same login in another home."""
    alike = [each for each, other in config.accounts.items() if other.agent == agent.facts.name]
    if alike == [name]:
        return
    from segue.turns.shared_login import shared_login

    if (reason := shared_login(agent, name, config.accounts[name], config, env)) is not None:
        raise Misuse(reason)


def bound_account(agent: str | None, config: Config, cwd: Path) -> str | None:
    """The account that the directory is bound to, or the nearest one above it; of any agent, or of this one.

    Directories are compared by identity: a link to one is the same one.
    """
    bound: dict[tuple[int, int], list[str]] = {}
    for name, account in config.accounts.items():
        if agent in (None, account.agent):
            for place in filter(None, map(_place_of, account.directories)):
                bound.setdefault(place, []).append(name)
    here = Path(os.path.realpath(cwd)) if bound else cwd
    for directory in (here, *here.parents) if bound else ():
        names = bound.get(_place_of(directory) or (0, 0), [])
        if len(names) > 1:
            listed = " and ".join(names)
            raise Misuse(f"{directory} is bound to the accounts {listed}; name one of them with --account")
        if names:
            return names[0]
    return None


def _place_of(directory: str | Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(directory)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def identity_of(
    agent: Agent, account: str, home: Path, child: ChildEnvironment, store: Store, *, record: bool = False
) -> Identity:
    """Who is logged in to the account now, and where requests go. ``record``: it is about to answer.

    If a file cannot be read even after some pauses, its part counts as unchanged: what is half written is no
    change.
    """
    name = agent.facts.name
    known = store.identities(name, account)
    login, route = _read_patiently(agent, home, child.env, known)
    seen = None if login == UNREADABLE else login or UNKNOWN
    routes = () if route is None else route_names(route, child)
    found = identify(known, seen, routes, lambda one, two: hashed(f"{one}\n{two}"))
    if record and found not in known[:1]:
        from segue.system import clock

        store.see_identity(name, account, found, clock.now_ms(), routes[1:])
        return identity_of(agent, account, home, child, store)  # another one may have taken its name
    return found


def route_names(route: Route, child: ChildEnvironment) -> tuple[str, ...]:
    """How the route is recorded: as it is now, and what it may have been recorded as before: by the keys
    alone, as long as their user was not named, and without the keys."""
    lines = [f"{name}={value}" for name, value in sorted(route.variables.items())]
    place = hashed("\n".join(lines)) if lines else ""
    known = sorted((name, value) for name, value in key_hashes(route, child.env).items() if value)
    keys = "\n".join(f"{name}={value}" for name, value in known)
    by_key = f"{place}.{hashed(keys) if keys else ''}"
    named = () if child.user is None or not route.keys else (f"{place}.{hashed(f'user {child.user}')}",)
    return *named, by_key, place


def key_hashes(route: Route, env: Mapping[str, str]) -> dict[str, str]:
    """The keys that it is given, each with a fingerprint of its value; empty if it is not known, or the
    model's in a rehearsal, which is another one with each start."""
    read = {name for name, in_env in route.keys.items() if in_env and env[name] != env.get(REHEARSAL_KEY)}
    return {name: hashed_secret(name, env[name]) if name in read else "" for name in route.keys}


def _read_patiently(
    agent: Agent, home: Path, env: Mapping[str, str], known: list[Identity]
) -> tuple[str | None, Route | None]:
    for pause in (*PAUSES_S, None):
        login = agent.format.login(home, env) if agent.format is not None else None
        route = agent.route(home, env) if isinstance(agent, TellsRoute) else Route()
        is_gone = login is None and bool(known) and known[0].login != UNKNOWN
        if pause is None or not (is_gone or login == UNREADABLE or route is None):
            break
        time.sleep(pause)
    return login, route


def _own_account(agent: str, config: Config) -> tuple[str | None, Account | None]:
    """The agent's account if none is requested: its default one, else its namesake."""
    for name in (config.defaults.accounts.get(agent), config.defaults.account, agent):
        if name is not None and name in config.accounts and config.accounts[name].agent == agent:
            return name, config.accounts[name]
    return None, None


def _installed(config: Config, env: Mapping[str, str]) -> Agent:
    agents = registry.preferred(config)
    for agent in agents:
        try:
            probe.find(agent, env=env, configured=config.commands.get(agent.facts.name))
        except NotInstalled:
            continue
        return agent
    raise NotInstalled(
        f"no agent is installed; install one ({agents[0].facts.install}), or try without: --agent rehearsal"
    )
