"""What ``config.toml`` can contain: one frozen type per section, with the defaults."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from segue.config.declared import DeclaredAgent, refuse_ours
from segue.core.request import Posture, Questions
from segue.core.situation import Policy
from segue.core.usage import Price
from segue.core.verdicts import Said, say

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Dollars = Annotated[float, Meta(gt=0)]
DollarsOrNone = Annotated[float, Meta(ge=0)]
"""0: no limit."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def built_in_agents() -> frozenset[str]:
    """The agents that come with Segue: each has a folder with an adapter."""
    folders = (path.parent.name for path in Path(__file__).parents[1].glob("agents/*/adapter.py"))
    return frozenset(folders) - {"declared"}


class Recap(msgspec.Struct, frozen=True, kw_only=True):
    max_bytes: Annotated[int, Meta(ge=1000)] = 24_000


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    days: Count = 7


OnLimit = Literal["park", "fail", "switch"]
AccountOrder = Literal["most_room", "soonest_reset", "listed"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a run that meets a limit of its account."""

    on_limit: OnLimit = "park"
    """``park``: a queued run waits for the end of the limit. ``switch``: another account takes the message;
    if none can, as ``park``."""
    order: AccountOrder = "most_room"
    """Which of the other accounts comes first."""
    max_windows: Positive = 12
    """How often a run waits for the end of a limit that it then meets again, before it fails."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent before a turn asks first, in US dollars. A project's file has no say in this."""

    conversation: DollarsOrNone = 0
    """In each conversation, altogether."""
    day: DollarsOrNone = 0
    """In all conversations together, on each day of the local calendar."""
    flow: DollarsOrNone = 0
    """In each flow, altogether, if it has no budget of its own."""


CarryRule = Literal["allow", "ask", "never"]


class Carry(msgspec.Struct, frozen=True, kw_only=True):
    """What may be carried over from one account to another. A project's file has no say in this."""

    rule: CarryRule = "ask"
    """For accounts without a rule. ``ask``: only if the user asks for it. ``allow``: also if a limit makes a
    run switch its account. ``never``: not at all."""
    never: tuple[tuple[str, str], ...] = ()
    """Pairs of accounts between which nothing is carried, in either direction."""
    closed: tuple[str, ...] = ()
    """Accounts whose words are never carried over, also if they are no longer configured."""
    max_bytes: Annotated[int, Meta(ge=1000)] = 24_000
    summary_model: str | None = None
    """The model that writes a summary. None: the one that the account uses anyway."""
    summary_timeout: Seconds = 120
    summary_budget: Dollars | None = None


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """Our own copies of the native sessions that conversations continue."""

    enabled: bool = True
    max_mb: Positive = 2048
    """The limit for all copies together, as they are stored."""
    max_session_mb: Positive = 200
    days: Positive = 90
    """A copy that no conversation continues is dropped this long after its last use."""


class Daemon(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon is started. A project's file has no say in this."""

    start: Literal["never", "auto"] = "never"
    """``auto``: the first command that can use it starts it."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """0: a free one."""
    idle_exit: Seconds | None = None
    """End after this many seconds without use. None: never."""


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """Where conversations are kept."""

    url: str | None = None
    """None: in a file in Segue's home. A PostgreSQL URL is never shown: it may contain a password."""
    host: str | None = None
    """The name of this machine for others that share the store. None: its own name."""

    def __post_init__(self) -> None:
        if self.url is not None and not self.url.startswith(("postgresql://", "postgres://")):
            raise ValueError("url must begin with postgresql://")


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What ``segue run`` uses if neither an option nor the conversation sets it."""

    agent: str | None = None
    account: str | None = None
    accounts: dict[str, str] = {}
    """The default account of each agent."""
    model: str | None = None
    permission: Posture = "default"
    instructions: str | None = None
    """Text that is given to the agent once per native session."""
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    timeout: Seconds | None = None
    wait: Annotated[float, Meta(ge=0)] | None = None
    retries: Count = 0
    """How often a turn is retried after a temporary failure."""
    directory: Literal["here", "remembered"] = "here"
    """``remembered``: wherever it is started, a turn works in its conversation's directory."""
    max_turns: Positive | None = None
    budget: Dollars | None = None
    questions: Questions = "auto"
    question_timeout: Seconds = 1800
    """How long a question waits for its answer; then the agent is told that nobody answered."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A named identity of an agent."""

    agent: str
    home: str | None = None
    """Absolute once loaded."""
    env: dict[str, str] = {}
    """Set for the agent, literally: ``~`` and ``$`` mean nothing in it."""
    pass_env: tuple[str, ...] = ()
    """Variables of the caller that are passed on although they are otherwise withheld."""
    user: str | None = None
    """Whose keys they are, by any name: another key then counts as the same user's."""
    carry_out: CarryRule | None = None
    """Whether what was said under it may be carried over to others; None: as ``[carry] rule`` says."""
    carry_in: CarryRule | None = None
    """Whether what was said under others may be carried over to it."""
    on_limit: OnLimit | None = None
    """What becomes of its runs at a limit; None: as ``[limits] on_limit`` says."""
    directories: tuple[str, ...] = ()
    """Where it is used if no account is named: these directories, and what is below them. Absolute once
    loaded."""
    budget: DollarsOrNone = 0
    """What may be spent under it on each day before a turn asks first."""

    def __post_init__(self) -> None:
        for name in (*self.env, *self.pass_env):
            if not name or "=" in name or "\0" in name:
                raise ValueError(f'has "{name}", which is not the name of a variable')
            refuse_ours(name)
        for name, value in self.env.items():
            if "\0" in value:
                raise ValueError(f"env.{name} cannot contain a NUL character")


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a conversation that wait."""

    on_failure: Literal["go_on", "hold"] = "go_on"
    """After a run that failed or was cancelled. ``hold``: what waits stays there until somebody says so."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a model that its CLI does not report."""

    window: Positive
    """How many tokens its context has."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration, files and variables together."""

    continuity: Policy = Policy()
    recap: Recap = Recap()
    retention: Retention = Retention()
    limits: Limits = Limits()
    budgets: Budgets = Budgets()
    carry: Carry = Carry()
    keep: Keep = Keep()
    daemon: Daemon = Daemon()
    queue: Queue = Queue()
    store: Store = Store()
    defaults: Defaults = Defaults()
    accounts: dict[str, Account] = {}
    commands: dict[str, tuple[str, ...]] = {}
    """``[agents.<name>] command`` of built-in agents: what to start instead."""
    declared: dict[str, DeclaredAgent] = {}
    prices: dict[str, Price] = {}
    models: dict[str, Model] = {}
    project: Path | None = None
    """The project's ``segue.toml``, if there is one."""
    model_from: str | None = None
    """The project's file that names the model, if its directory is not trusted."""
    notices: tuple[Said, ...] = ()
    """What was ignored in the project's file and why, for the user."""
    misspelt: tuple[Said, ...] = ()
    """Variables that look like Segue's and have no effect."""

    @property
    def remarks(self) -> tuple[Said, ...]:
        """Everything that the user should be told about the configuration."""
        return (*self.notices, *self.misspelt, *self.misnamed)

    @property
    def mentions(self) -> tuple[str, ...]:
        """The same in words."""
        return tuple(each.text for each in self.remarks)

    @property
    def strangers(self) -> tuple[str, ...]:
        """The accounts in ``[carry] never`` that are not configured. They may have been once."""
        named = dict.fromkeys(name for pair in self.carry.never for name in pair)
        return tuple(name for name in named if name and name not in self.accounts)

    @property
    def misnamed(self) -> tuple[Said, ...]:
        """Those of them that are probably misspelt."""
        if not self.strangers:
            return ()
        from difflib import get_close_matches

        meant = [(name, get_close_matches(name, self.accounts, 1)) for name in self.strangers]
        told = '[carry] never names the account "{}", which is not configured; did you mean "{}"?'
        return tuple(
            say(told.format(name, close[0]), "config.misnamed", name=name, meant=close[0])
            for name, close in meant
            if close
        )

    def budget_under(self, account: str) -> float:
        """What may be spent under the account on a day; 0: no limit."""
        known = self.accounts.get(account)
        return known.budget if known is not None else 0

    def has_budget(self, account: str) -> bool:
        """Whether anything limits what may be spent under the account."""
        return bool(self.budgets.conversation or self.budgets.day or self.budget_under(account))

    def carry_rule(self, source: str, target: str) -> CarryRule:
        """Whether what was said under one account may be carried over to another: the strictest rule counts.
        An empty name is no account: only ``[carry] rule`` applies to it."""
        if source == target:
            return "allow"
        if source in self.carry.closed or any({source, target} == set(pair) for pair in self.carry.never):
            return "never"
        out, into = self.accounts.get(source), self.accounts.get(target)
        given = (out.carry_out if out is not None else None, into.carry_in if into is not None else None)
        return max((rule or self.carry.rule for rule in given), key=STRICTNESS.index)

    def on_limit(self, account: str) -> OnLimit:
        """What becomes of a run of the account that meets a limit. An empty name is no account."""
        own = self.accounts[account].on_limit if account in self.accounts else None
        return own or self.limits.on_limit

    def closed_to(self, account: str) -> Callable[[str], bool]:
        """Whether the words of an account must never reach this one, whatever the agents."""
        return lambda source: self.carry_rule(source, account) == "never"


STRICTNESS: tuple[CarryRule, ...] = ("allow", "ask", "never")

FLAT: dict[str, type[msgspec.Struct]] = {
    "continuity": Policy,
    "recap": Recap,
    "retention": Retention,
    "limits": Limits,
    "budgets": Budgets,
    "carry": Carry,
    "keep": Keep,
    "daemon": Daemon,
    "queue": Queue,
    "store": Store,
    "defaults": Defaults,
}
"""Sections with fixed keys."""

NAMED: dict[str, type[msgspec.Struct]] = {
    "accounts": Account,
    "agents": DeclaredAgent,
    "prices": Price,
    "models": Model,
}
"""Sections of named entries; all entries of one section have the same keys."""

PROJECT_KEYS: dict[str, frozenset[str]] = {
    "continuity": frozenset({"ttl_minutes", "context_threshold", "max_session_mb", "retire_after"}),
    "recap": frozenset({"max_bytes"}),
    "defaults": frozenset({"model", "instructions", "timeout", "max_turns", "budget"}),
}
"""What a project can set before its directory is trusted."""

LOWER_ONLY = {
    "continuity": frozenset({"ttl_minutes", "context_threshold", "max_session_mb", "retire_after"}),
    "recap": frozenset({"max_bytes"}),
    "defaults": frozenset({"timeout", "max_turns", "budget"}),
}
"""Limits that an untrusted project can lower but not raise: higher ones would make turns cost more."""


def is_name(text: str) -> bool:
    """Whether the text can be the name of an account or an agent."""
    return bool(re.fullmatch(_NAME, text))
