"""A turn that may start: everything is settled that can be wrong before a process runs."""

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
from segue.core.errors import Misuse
from segue.core.model import Host, Voice
from segue.core.request import Grant, Request, Runtime, Terms
from segue.core.turn import Turn
from segue.core.view import UNKNOWN, account_mark
from segue.store.records import Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.agent_choice import remembered_options, resolve_agent
from segue.turns.permissions import Granted, grant_terms
from segue.turns.request import TurnRequest, instructions_of, name_of, request_of, utf8

if TYPE_CHECKING:
    from segue.sessions.listing import Listed


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

    ``here``: the caller's directory. ``here_config``: the configuration there, if it was read already."""
    ask = msgspec.structs.replace(ask, here=str(here), environment=tuple(sorted(env)))
    known = store.conversation(ask.conversation)
    ask, adopted, here_config = _adopted(ask, env, store, here, here_config)
    cwd = _directory(_place(ask, known, env, here, here_config))
    config = (here_config if cwd == Path(os.path.abspath(here)) else None) or load(env, cwd)
    remembered = remembered_options(ask, store, known)
    agent, account_name, account = resolve_agent(remembered.agent, remembered.account, config, env)
    segue_home = home_of(env)
    child, home = _surroundings(agent, account, env)
    runtime = _probed(agent, config, child, segue_home)
    conversation = known or _conversation(ask.conversation)
    before = store.grant(conversation.id, Voice(agent.facts.name, remembered.role))
    granted = _granted(ask, before, config, agent, runtime)
    return Prepared(
        run=clock.new_id(),
        ask=ask,
        config=config,
        segue_home=segue_home,
        conversation=conversation,
        agent=agent,
        account=account_name,
        runtime=runtime,
        request=request_of(ask, config, agent, runtime, cwd, remembered.model, granted),
        granted=granted,
        instructions=instructions_of(ask, config),
        model=remembered.model,
        role=remembered.role,
        child=child,
        home=home,
        host=this_host(config.store.host, segue_home),
        login=_login(agent, home, child.env),
        adopted=adopted,
        elsewhere=config.defaults.directory != "remembered" and not _is_inside(here, cwd),
    )


def _probed(agent: Agent, config: Config, child: ChildEnvironment, segue_home: Home) -> Runtime:
    command = config.commands.get(agent.facts.name)
    return probe.probe(agent, env=child.env, configured=command, cache=segue_home.probes)


def _adopted(
    ask: TurnRequest, env: Mapping[str, str], store: Store, here: Path, here_config: Config | None
) -> tuple[TurnRequest, Listed | None, Config | None]:
    """The request with what a session brings along that is to be adopted."""
    if ask.adopt is None:
        return ask, None, here_config
    from segue.turns.adopt import find_adoptable

    here_config = here_config or load(env, here)
    return *find_adoptable(ask, env, store, here_config), here_config


def _surroundings(
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
    if not mine.home:
        return child, agent.default_home(child.env)
    home = Path(mine.home)
    return msgspec.structs.replace(child, env={**child.env, **agent.home_env(home)}), home


def as_of_now(prepared: Prepared, store: Store) -> Prepared:
    """The same turn with what may have changed while it waited: who is logged in, and what its voice may do.

    Under the conversation's lease, so that nobody changes it any more.
    """
    agent, runtime, config = prepared.agent, prepared.runtime, prepared.config
    remembered_grant = store.grant(prepared.conversation.id, prepared.voice)
    granted = _granted(prepared.ask, remembered_grant, config, agent, runtime)
    login = _login(agent, prepared.home, prepared.child.env)
    if (granted, login) == (prepared.granted, prepared.login):
        return prepared
    cwd = prepared.request.cwd
    request = request_of(prepared.ask, config, agent, runtime, cwd, prepared.model, granted)
    return msgspec.structs.replace(prepared, granted=granted, login=login, request=request)


def _login(agent: Agent, home: Path, env: Mapping[str, str]) -> str:
    seen = agent.format.login(home, env) if agent.format is not None else None
    return seen or UNKNOWN


def _granted(ask: TurnRequest, remembered: Grant, config: Config, agent: Agent, runtime: Runtime) -> Granted:
    return grant_terms(ask, remembered, config.defaults, runtime.capabilities, name_of(agent, runtime))


def _conversation(key: str) -> Conversation:
    now_ms = clock.now_ms()
    return Conversation(id=clock.new_id(now_ms), key=key, created_ms=now_ms, updated_ms=now_ms)


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
