"""The JSON objects of accounts. They have the names of variables, and no values."""

from __future__ import annotations

import msgspec

from segue.accounts.fingerprint import Fingerprint
from segue.config.schema import CarryRule, OnLimit
from segue.core.usage import LimitShown, Pays


class AccountShown(msgspec.Struct, frozen=True, kw_only=True):
    """A named identity of an agent."""

    name: str
    agent: str
    home: str | None
    """The agent's home directory under this account; null: its usual one."""
    env: tuple[str, ...]
    """The names of the variables that are set for the agent."""
    pass_env: tuple[str, ...]
    """The names of the caller's variables that are passed on."""
    default: bool = False
    """Its agent uses it if no account is named."""
    directories: tuple[str, ...] = ()
    """Where it is used if no account is named: these directories, and what is below them."""
    limits: tuple[LimitShown, ...] | None = None
    """Its usage limits, as they were last seen; null: they are not known."""
    pays: Pays = "unknown"
    """What pays for its turns."""
    budget: float | None = None
    """What may be spent under it on a day before a turn asks first; null: any amount."""


class AccountDetails(AccountShown, frozen=True, kw_only=True):
    """An account, and who it is."""

    fingerprint: Fingerprint | None = None
    """Null: its agent is not known."""
    problem: str | None = None
    """Why turns with it are refused."""
    carry_out: CarryRule = "ask"
    """Whether what was said under it may be carried over to others: its own rule, else ``[carry] rule``."""
    carry_in: CarryRule = "ask"
    """Whether what was said under others may be carried over to it."""
    never: tuple[str, ...] = ()
    """The accounts to and from which nothing is carried (``[carry] never``)."""
    on_limit: OnLimit = "park"
    """What becomes of its runs at a limit: as it says itself, else as ``[limits] on_limit`` says."""
    login_command: str | None = None
    """What ``segue account login`` runs; null: the CLI has no such command, or is not installed."""


class LoginCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in to an account, in a terminal on this machine."""

    account: str
    agent: str
    command: str
    """A line for a shell."""


class LimitsRefreshed(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an account's usage limits after its CLI was asked."""

    account: str
    limits: tuple[LimitShown, ...] | None
    """As in the account."""
    why_not: str | None = None
    """Why the CLI was not asked, or did not tell; null: it did."""
