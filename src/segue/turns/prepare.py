"""Prepares a turn: everything that can be wrong before a process starts is found here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents import probe
from segue.agents.base import Agent, Enforces
from segue.config.home import Home, home_of, this_host
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.environment import ChildEnvironment
from segue.core.errors import ConfigError, Misuse
from segue.core.laws import Door
from segue.core.model import Host, NewAttachment, Voice
from segue.core.request import Request, Runtime, Terms
from segue.core.turn import Transport, Turn
from segue.core.verdicts import Said, say
from segue.core.view import UNKNOWN, account_mark
from segue.store.records import QUEUED, Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.agent_choice import (
    identity_of,
    refuse_removed,
    refuse_shared_login,
    remembered_options,
    resolve_agent,
    surroundings,
)
from segue.turns.permissions import Granted, grant_terms
from segue.turns.request import Fixed, TurnRequest, instructions_of, name_of, request_of, utf8

if TYPE_CHECKING:
    from segue.sessions.listing import Listed


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is ready to start."""

    run: str
    ask: TurnRequest
    config: Config
    segue_home: Home
    conversation: Conversation
    """As it is stored, or as this turn will store it."""
    agent: Agent
    account: str | None
    runtime: Runtime
    request: Request
    granted: Granted
    instructions: str | None
    model: str | None
    """The model that was requested, now or before; None: left to the configuration and the CLI."""
    role: str
    env: Mapping[str, str]
    """The caller's."""
    child: ChildEnvironment
    """What of it the agent gets."""
    home: Path
    """The account's home: where the CLI keeps its login and its sessions."""
    host: Host
    login: str = UNKNOWN
    """Who is logged in to the account: a fingerprint, or ``unknown``."""
    adopted: Listed | None = None
    """The session to be adopted before the turn."""
    elsewhere: bool = False
    """The caller is outside the turn's directory: a command that continues has to name it."""
    files: tuple[NewAttachment, ...] = ()
    """The attachments of a new message, to be stored with it."""
    transport: Transport = "process"
    """Which process runs it."""
    limited: tuple[str, ...] = ()
    """The accounts that met a limit with this message before."""
    notices: tuple[Said, ...] = ()
    """What the user is told when it begins."""

    @property
    def has_budget(self) -> bool:
        """Whether anything limits what it may cost."""
        place, config = self.ask.flow, self.config
        of_flow = place is not None and (place.budget or place.tier_budget or config.budgets.flow)
        return bool(of_flow) or config.has_budget(self.account_name)

    @property
    def voice(self) -> Voice:
        return Voice(self.agent.facts.name, self.role)

    @property
    def account_name(self) -> str:
        return self.account or ""

    @property
    def named(self) -> str | None:
        """The directory, if commands have to name it."""
        return str(self.request.cwd) if self.elsewhere else None

    def terms(self, request: Request | None = None) -> Terms:
        """The permissions and limits of the turn; ``request``: the final one of an attempt."""
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
        """The untrusted project file that chose the model; None: no such file did."""
        return self.config.model_from if self.model is None else None

    @property
    def mentions(self) -> tuple[Said, ...]:
        """What the user should know about the turn's configuration."""
        told, chosen, model = self.config.remarks, self.model_from, self.request.model
        if chosen is None:
            return told
        return (*told, say(f"model {model} (from {chosen})", "notice.model", model=str(model), file=chosen))

    @property
    def mark(self) -> str:
        """The agent, account and login under which the turn's message is said."""
        return account_mark(self.agent.facts.name, self.account_name, self.login)


def prepare(
    ask: TurnRequest, env: Mapping[str, str], store: Store, here: Path, here_config: Config | None = None
) -> Prepared:
    """Resolve everything that can be resolved before a process starts. ``here``: the caller's directory.
    ``here_config``: the configuration there, if it is already loaded."""
    ask = msgspec.structs.replace(ask, here=str(here), environment=tuple(sorted(env)))
    known = store.conversation(ask.conversation)
    ask, adopted, here_config = _adopted(ask, env, store, here, here_config)
    cwd = _directory(_place(ask, known, env, here, here_config))
    config = _config(here_config if cwd == Path(os.path.abspath(here)) else None, env, cwd, ask.fixed)
    remembered = remembered_options(ask, store, known, config)
    refuse_removed(ask, known, remembered.account, config)
    agent, account_name, account = resolve_agent(remembered.agent, remembered.account, config, env, cwd)
    segue_home = home_of(env)
    child, home = _surroundings(agent, account_name, account, config, env)
    runtime = _probed(agent, config, child, segue_home)
    conversation = known or _conversation(ask.conversation)
    granted = _granted(ask, store, conversation.id, remembered.role, config, agent, runtime)
    request = request_of(ask, config, agent, runtime, cwd, remembered.model, granted)
    refuse_unenforced(agent, request, runtime, home, child)
    return Prepared(
        run=clock.new_id(),
        ask=ask,
        config=config,
        segue_home=segue_home,
        conversation=conversation,
        agent=agent,
        account=account_name,
        runtime=runtime,
        request=request,
        granted=granted,
        instructions=instructions_of(ask, config, env, here),
        model=remembered.model,
        role=remembered.role,
        env=env,
        child=_with_variables(child, ask),
        home=home,
        host=this_host(config.store.host, segue_home),
        login=identity_of(agent, account_name or "", home, child, store).mark,
        adopted=adopted,
        elsewhere=config.defaults.directory != "remembered" and not _is_inside(here, cwd),
    )


def _with_variables(child: ChildEnvironment, ask: TurnRequest) -> ChildEnvironment:
    """The environment with the variables of the flow that the turn belongs to."""
    variables = ask.flow.variables if ask.flow is not None else {}
    return msgspec.structs.replace(child, env={**child.env, **variables}) if variables else child


def fixed_of(prepared: Prepared) -> Fixed:
    """What holds for the turn from now on, whenever it starts."""
    return Fixed(grant=prepared.granted.before, defaults=prepared.config.defaults)


def _config(known: Config | None, env: Mapping[str, str], cwd: Path, fixed: Fixed | None) -> Config:
    config = known or load(env, cwd)
    return config if fixed is None else msgspec.structs.replace(config, defaults=fixed.defaults)


def _probed(agent: Agent, config: Config, child: ChildEnvironment, segue_home: Home) -> Runtime:
    command = config.commands.get(agent.facts.name)
    return probe.probe(agent, env=child.env, configured=command, cache=segue_home.probes)


def _adopted(
    ask: TurnRequest, env: Mapping[str, str], store: Store, here: Path, here_config: Config | None
) -> tuple[TurnRequest, Listed | None, Config | None]:
    """The request, completed from the session to be adopted, if there is one."""
    if ask.adopt is None:
        return ask, None, here_config
    from segue.turns.adopt import find_adoptable

    here_config = here_config or load(env, here)
    return *find_adoptable(ask, env, store, here_config), here_config


def _surroundings(
    agent: Agent, name: str | None, account: Account | None, config: Config, env: Mapping[str, str]
) -> tuple[ChildEnvironment, Path]:
    """The environment that the CLI gets, and its home. An account whose login is another's is refused."""
    if name is not None:
        refuse_shared_login(agent, name, config, env)
    return surroundings(agent, account, env)


def refuse_unenforced(
    agent: Agent, request: Request, runtime: Runtime, home: Path, child: ChildEnvironment
) -> None:
    """Raise ``Misuse`` if the permissions that would be shown are not in force with this CLI."""
    reason = not_in_force(agent, request, runtime, home, child)
    if reason is not None:
        raise Misuse(reason)


def not_in_force(
    agent: Agent, request: Request, runtime: Runtime, home: Path, child: ChildEnvironment
) -> str | None:
    """Why the permissions that would be shown are not in force with this CLI; None: they are."""
    if not isinstance(agent, Enforces):
        return None
    return agent.not_in_force(request, runtime, home, child.env)


def as_of_now(prepared: Prepared, store: Store) -> Prepared:
    """The same turn with what may have changed while it waited: the login, the voice's permissions, the
    rules for what may be carried, and the budgets.

    Called under the conversation's lease, so that they cannot change any more. The gate judges what comes
    out.
    """
    agent, runtime, config = prepared.agent, prepared.runtime, _with_rules_of_now(prepared)
    conversation = prepared.conversation.id
    granted = _granted(prepared.ask, store, conversation, prepared.role, config, agent, runtime)
    home, child = prepared.home, prepared.child
    login = identity_of(agent, prepared.account_name, home, child, store, record=True).mark
    request = prepared.request
    if granted != prepared.granted:
        request = request_of(prepared.ask, config, agent, runtime, request.cwd, prepared.model, granted)
    if (granted, login, config) == (prepared.granted, prepared.login, prepared.config):
        return prepared
    return msgspec.structs.replace(prepared, granted=granted, login=login, request=request, config=config)


def _with_rules_of_now(prepared: Prepared) -> Config:
    """The turn's configuration with the budgets of now, and the rules of now for what may be carried. If the
    files cannot be read just now, those that it began with hold."""
    before = prepared.config
    try:
        now = load(prepared.env, prepared.request.cwd)
    except ConfigError:
        return before
    accounts = dict(before.accounts)
    for name, account in now.accounts.items():
        known = accounts.get(name, account)
        accounts[name] = msgspec.structs.replace(
            known, carry_out=account.carry_out, carry_in=account.carry_in, budget=account.budget
        )
    if (now.carry, now.budgets, accounts) == (before.carry, before.budgets, before.accounts):
        return before
    return msgspec.structs.replace(before, carry=now.carry, budgets=now.budgets, accounts=accounts)


def login_under(
    agent: Agent, name: str, account: Account | None, env: Mapping[str, str], store: Store
) -> str:
    """Who is logged in to an account now, as a turn under it would find out."""
    child, home = surroundings(agent, account, env)
    return identity_of(agent, name, home, child, store).mark


def _granted(
    ask: TurnRequest,
    store: Store,
    conversation: str,
    role: str,
    config: Config,
    agent: Agent,
    runtime: Runtime,
) -> Granted:
    voice = Voice(agent.facts.name, role)
    now, always = store.grant(conversation, voice), store.always_allowed(conversation, voice)
    before = ask.fixed.grant if ask.fixed is not None else now
    name = name_of(agent, runtime)
    return grant_terms(ask, before, config.defaults, runtime.capabilities, name, always, now)


def _conversation(key: str) -> Conversation:
    now_ms = clock.now_ms()
    return Conversation(id=clock.new_id(now_ms), key=key, created_ms=now_ms, updated_ms=now_ms)


def prepare_retry(prepared: Prepared, store: Store, turn: Turn) -> Prepared:
    """A new run of the same turn, in the conversation it ran in; ``Misuse`` if that is gone.

    ``--cut`` applies to the first run that begins: what others say while we wait for a retry is not dropped.
    """
    conversation = store.conversation(turn.conversation)
    row = store.turn(turn.run)
    if conversation is None or row is None:
        raise Misuse(f"{turn.conversation} was deleted in the meantime")
    now_ms, park = clock.now_ms(), prepared.ask.park
    if park is None and row.via == QUEUED:  # its retry waits for the end of a limit, too
        park = prepared.config.on_limit(prepared.account_name) != "fail"
    fixed = fixed_of(prepared) if turn.state == "parked" else None
    return msgspec.structs.replace(
        prepared,
        run=clock.new_id(now_ms),
        ask=msgspec.structs.replace(
            prepared.ask,
            conversation=conversation.key,
            fork=False,
            adopt=None,
            cut=prepared.ask.cut and turn.state == "withdrawn",
            door=Door.RETRY,
            park=park,
            fixed=prepared.ask.fixed or fixed,
        ),
        conversation=conversation,
        login=identity_of(prepared.agent, prepared.account_name, prepared.home, prepared.child, store).mark,
        adopted=None,
    )


def _place(
    ask: TurnRequest,
    known: Conversation | None,
    env: Mapping[str, str],
    here: Path,
    here_config: Config | None,
) -> Path:
    """Where the turn works. Another directory than before must be named: a mistake would lose a session."""
    if ask.cwd is not None:
        return here / ask.cwd
    key, directory = ask.conversation, Path(known.cwd) if known is not None and known.cwd else None
    if directory is None:
        return here
    if not directory.is_dir():
        raise Misuse(f"{key} belongs to {directory}, which was deleted; name another directory with --cwd")
    if _is_inside(here, directory) or (here_config or load(env, here)).defaults.directory == "remembered":
        return directory
    raise Misuse(
        f"{key} belongs to {directory}, and this is {here}; go there, name the directory with --cwd,"
        ' or set [defaults] directory = "remembered" in config.toml to run it there from anywhere'
    )


def _is_inside(here: Path, directory: Path) -> bool:
    """Whether ``here`` is the directory or inside it, with links resolved."""
    try:
        return any(directory.samefile(each) for each in (here, *Path(os.path.realpath(here)).parents))
    except OSError:
        return False


def _directory(cwd: Path) -> Path:
    if not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        raise Misuse(f"the working directory {cwd} {what}")
    return Path(utf8(os.path.abspath(cwd), "name of the working directory"))
