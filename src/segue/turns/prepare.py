"""What a conversation remembers, so that its second turn needs only the key.

Who answers: the agent and the account, as asked, as configured, or as installed.

A turn that may start: everything is settled that can be wrong before a process runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.home import Home, home_of, this_host
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.environment import ChildEnvironment, child_environment
from segue.core.errors import Misuse, NotInstalled
from segue.core.model import Host, Voice
from segue.core.request import Grant, Request, Runtime, Terms
from segue.core.turn import Turn
from segue.core.view import UNKNOWN, account_mark
from segue.store.records import Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.permissions import Granted, grant_terms
from segue.turns.request import NONE, TurnRequest, instructions_of, name_of, request_of, utf8

if TYPE_CHECKING:
    from segue.sessions.listing import Listed


LOOKED_AT = 100
"""How many turns of an agent are looked through for what it was last run with in a role."""


class Remembered(msgspec.Struct, frozen=True):
    """Who answers: as asked, else as before."""

    agent: str | None = None
    account: str | None = None
    """An empty one: none, because that was said or was so before. None: as configured."""
    model: str | None = None
    role: str = ""


def remembered_options(ask: TurnRequest, store: Store, known: Conversation | None) -> Remembered:
    """An account names its agent; an agent brings the account and the model it last had here."""
    role = _said(ask.role, known.role if known is not None else "") or ""
    if known is None:
        return Remembered(ask.agent, _account(ask.account), _said(ask.model), role)
    if ask.account not in (None, NONE) and ask.agent is None:
        same = ask.account == known.account
        return Remembered(None, ask.account, _said(ask.model, known.model if same else None), role)
    agent = ask.agent or known.agent or None
    account, model = _last_of(agent, role, store, known)
    return Remembered(agent, _account(ask.account, account), _said(ask.model, model), role)


def _said(now: str | None, before: str | None = None) -> str | None:
    """What was said now, else before; ``none`` takes back what was said before."""
    wanted = before if now is None else now
    return None if now == NONE else wanted


def _account(now: str | None, before: str | None = None) -> str | None:
    """That there was no account is remembered like any other: a default that is set later changes nothing."""
    return "" if now == NONE else before if now is None else now


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
    wanted_agent: str | None, wanted_account: str | None, config: Config, env: Mapping[str, str]
) -> tuple[Agent, str | None, Account | None]:
    """The agent and the account: as asked, else as configured, else the first agent installed.

    An empty account is asked for, too: that there be none.
    """
    open_to_all = wanted_account is None and wanted_agent is None
    named = config.defaults.account if open_to_all else wanted_account
    account = _chosen_account(named, config) if named else None
    wanted = wanted_agent or (account.agent if account else config.defaults.agent)
    agent = registry.get(wanted, config) if wanted is not None else _installed(config, env)
    if account is None:
        return agent, *(_own_account(agent.facts.name, config) if wanted_account is None else (None, None))
    if agent.facts.name != account.agent:
        raise Misuse(f'the account "{named}" is of {account.agent}, not of {agent.facts.name}')
    return agent, named, account


def _chosen_account(name: str, config: Config) -> Account:
    if name not in config.accounts:
        known = ", ".join(config.accounts) or "none"
        raise Misuse(f'there is no account "{name}" in config.toml (known: {known})')
    return config.accounts[name]


def _own_account(agent: str, config: Config) -> tuple[str | None, Account | None]:
    """The account that an agent uses unless told otherwise: the default one if it is its, or its namesake."""
    for name in (config.defaults.account, agent):
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


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that may start."""

    run: str
    ask: TurnRequest
    config: Config
    segue_home: Home
    conversation: Conversation
    """As it is stored, or as it will be by this turn."""
    agent: Agent
    account: str | None
    runtime: Runtime
    request: Request
    granted: Granted
    instructions: str | None
    model: str | None
    """The model that was asked for, now or before; None: left to the configuration and the CLI."""
    role: str
    child: ChildEnvironment
    home: Path
    """The account's home: where the CLI keeps its login and its sessions."""
    host: Host
    login: str = UNKNOWN
    """Who is logged in to the account: a fingerprint, or that nobody can tell."""
    adopted: Listed | None = None
    """The session to be taken in before the turn."""
    elsewhere: bool = False
    """The caller stands outside of the turn's directory: the command that goes on has to name it."""

    @property
    def voice(self) -> Voice:
        return Voice(self.agent.facts.name, self.role)

    @property
    def account_name(self) -> str:
        return self.account or ""

    @property
    def named(self) -> str | None:
        """The directory, where it has to be named."""
        return str(self.request.cwd) if self.elsewhere else None

    def terms(self, request: Request | None = None) -> Terms:
        """What holds in the turn; ``request``: as an attempt has it in the end."""
        asked = request or self.request
        return Terms(
            permission=asked.permission,
            allow_tools=asked.allow_tools,
            deny_tools=asked.deny_tools,
            max_turns=asked.max_turns,
            budget_usd=asked.budget_usd,
            questions=asked.questions if self.runtime.capabilities.questions else None,
            remembered=self.granted.remembered,
        )

    @property
    def model_from(self) -> str | None:
        """The file of somebody else's that chose the model; None: nobody's, or the user did."""
        return self.config.model_from if self.model is None else None

    @property
    def mentions(self) -> tuple[str, ...]:
        """What the user should know of how the turn was configured."""
        chosen = self.model_from
        model = (f"model {self.request.model} (from {chosen})",) if chosen is not None else ()
        return (*self.config.mentions, *model)

    @property
    def mark(self) -> str:
        """Under whom the turn's message is said."""
        return account_mark(self.agent.facts.name, self.account_name, self.login)


def prepare(
    ask: TurnRequest, env: Mapping[str, str], store: Store, here: Path, here_config: Config | None = None
) -> Prepared:
    """Settle everything that can be settled before a process starts.

    ``here``: where the caller stands. ``here_config``: the configuration there, if it has been read already.
    """
    ask = msgspec.structs.replace(ask, here=str(here), environment=tuple(sorted(env)))
    known = store.conversation(ask.conversation)
    adopted = None
    if ask.adopt is not None:
        from segue.turns import adopt

        here_config = here_config or load(env, here)
        ask, adopted = adopt.find_adoptable(ask, env, store, here_config)
    cwd = _directory(_place(ask, known, env, here, here_config))
    same = here_config is not None and cwd == Path(os.path.abspath(here))
    config = here_config if here_config is not None and same else load(env, cwd)
    before = remembered_options(ask, store, known)
    agent, account_name, account = resolve_agent(before.agent, before.account, config, env)
    mine = account or Account(agent=agent.facts.name)
    child = child_environment(
        env,
        registry.variables(),
        keys_withheld=agent.facts.keys,
        account_env=mine.env,
        pass_env=mine.pass_env,
    )
    home = Path(mine.home) if mine.home else None
    if home is not None:
        child = msgspec.structs.replace(child, env={**child.env, **agent.home_env(home)})
    segue_home = home_of(env)
    command = config.commands.get(agent.facts.name)
    runtime = probe.probe(agent, env=child.env, configured=command, cache=segue_home.probes)
    home = home or agent.default_home(child.env)
    now_ms = clock.now_ms()
    told = store.grant(known.id, Voice(agent.facts.name, before.role)) if known is not None else Grant()
    may = grant_terms(ask, told, config.defaults, runtime.capabilities, name_of(agent, runtime))
    return Prepared(
        run=clock.new_id(now_ms),
        ask=ask,
        config=config,
        segue_home=segue_home,
        conversation=known or _conversation(ask.conversation, now_ms),
        agent=agent,
        account=account_name,
        runtime=runtime,
        request=request_of(ask, config, agent, runtime, cwd, before.model, may),
        granted=may,
        instructions=instructions_of(ask, config),
        model=before.model,
        role=before.role,
        child=child,
        home=home,
        host=this_host(config.store.host, segue_home),
        login=_login(agent, home, child.env),
        adopted=adopted,
        elsewhere=config.defaults.directory != "remembered" and not _is_inside(here, cwd),
    )


def as_of_now(prepared: Prepared, store: Store) -> Prepared:
    """The same turn with what may have changed while it waited: who is logged in, and what its voice may do.

    Under the conversation's lease, so that nobody changes it any more.
    """
    agent, runtime, config = prepared.agent, prepared.runtime, prepared.config
    told = store.grant(prepared.conversation.id, prepared.voice)
    may = grant_terms(prepared.ask, told, config.defaults, runtime.capabilities, name_of(agent, runtime))
    login = _login(agent, prepared.home, prepared.child.env)
    if (may, login) == (prepared.granted, prepared.login):
        return prepared
    cwd = prepared.request.cwd
    request = request_of(prepared.ask, config, agent, runtime, cwd, prepared.model, may)
    return msgspec.structs.replace(prepared, granted=may, login=login, request=request)


def _login(agent: Agent, home: Path, env: Mapping[str, str]) -> str:
    seen = agent.format.login(home, env) if agent.format is not None else None
    return seen or UNKNOWN


def _conversation(key: str, now_ms: int) -> Conversation:
    made = clock.new_id(now_ms)
    return Conversation(id=made, key=key, created_ms=now_ms, updated_ms=now_ms)


def once_more(prepared: Prepared, store: Store, turn: Turn) -> Prepared:
    """The same turn as a run of its own, in the conversation it was taken in; ``Misuse`` if that is gone.

    What followed the message goes once; what others say while we wait for another try does not.
    """
    conversation = store.conversation(turn.conversation)
    if conversation is None or store.turn(turn.run) is None:
        raise Misuse(f"{turn.conversation} was removed meanwhile")
    now_ms = clock.now_ms()
    return msgspec.structs.replace(
        prepared,
        run=clock.new_id(now_ms),
        ask=msgspec.structs.replace(
            prepared.ask,
            conversation=conversation.key,
            fork=False,
            adopt=None,
            cut=prepared.ask.cut and turn.state == "withdrawn",
        ),
        conversation=conversation,
        login=_login(prepared.agent, prepared.home, prepared.child.env),
        adopted=None,
    )


def _place(
    ask: TurnRequest,
    known: Conversation | None,
    env: Mapping[str, str],
    here: Path,
    here_config: Config | None,
) -> Path:
    """Where the turn works. To work elsewhere than before must be said: a slip would lose a session."""
    if ask.cwd is not None:
        return here / ask.cwd
    key, lives = ask.conversation, Path(known.cwd) if known is not None and known.cwd else None
    if lives is None:
        return here
    if not lives.is_dir():
        raise Misuse(
            f"{ask.conversation} lives in {lives}, which was deleted; name another directory with --cwd"
        )
    if _is_inside(here, lives) or (here_config or load(env, here)).defaults.directory == "remembered":
        return lives
    raise Misuse(
        f"{key} lives in {lives}, and this is {here}; go there, name the directory with --cwd,"
        ' or set [defaults] directory = "remembered" in config.toml to run it there from anywhere'
    )


def _is_inside(here: Path, directory: Path) -> bool:
    """Whether that is the directory, or lies in it, whatever links lead there."""
    try:
        return any(directory.samefile(each) for each in (here, *Path(os.path.realpath(here)).parents))
    except OSError:
        return False


def _directory(cwd: Path) -> Path:
    if not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        raise Misuse(f"the working directory {cwd} {what}")
    return Path(utf8(os.path.abspath(cwd), "name of the working directory"))
