"""Routes for accounts. Over TCP they can be seen and chosen, but neither defined nor removed: an account says
which environment an agent gets and whose login it uses, so that is for the Unix socket only."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from segue import (
    AccountDetails,
    AccountShown,
    AccountSwitched,
    CarryShown,
    LimitsRefreshed,
    LoginCommand,
)
from segue.server.endpoint import Call, Endpoint

ACCOUNTS = "/api/v1/accounts"
ONE = f"{ACCOUNTS}/{{name}}"
Text = Annotated[str, msgspec.Meta(min_length=1)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class AccountBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account."""

    name: Text
    agent: Text
    home: Text | None = None
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()


class SwitchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The account to continue under; ``none``: the agent's usual login.

    ``carry_context``: put what was said before at the head of the first message, so that it is sent to the
    provider under the new account. Only if the user has agreed. ``queued``: what becomes of runs that wait.
    ``cancel``: first end what runs.
    """

    account: Text
    carry_context: bool = False
    carry_mode: Literal["raw", "summary"] = "raw"
    cancel: bool = False
    queued: Literal["keep", "move"] | None = None


class CarriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``conversation``: only what was carried over in it."""

    conversation: Text | None = None
    limit: Limit = 100


class DefaultBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``remove``: it is no longer the default."""

    remove: bool = False


class BindBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory, by its absolute path, and the account to use there; null: none any longer."""

    account: Text | None
    directory: Annotated[str, msgspec.Meta(pattern="^/")]


async def ls(call: Call) -> list[AccountShown]:
    return await call.segue.accounts.ls()


async def show(call: Call) -> AccountDetails:
    return await call.segue.accounts.show(call.path["name"])


async def refresh(call: Call) -> LimitsRefreshed:
    return await call.segue.accounts.refresh(call.path["name"])


async def add(call: Call) -> AccountDetails:
    new: AccountBody = call.body
    return await call.segue.accounts.add(
        new.name, agent=new.agent, home=new.home, env=new.env, pass_env=new.pass_env
    )


async def rm(call: Call) -> None:
    await call.segue.accounts.rm(call.path["name"])


async def login(call: Call) -> LoginCommand:
    return await call.segue.accounts.login(call.path["name"])


async def default(call: Call) -> AccountDetails:
    return await call.segue.accounts.default(call.path["name"], remove=call.body.remove)


async def bind(call: Call) -> list[AccountShown]:
    return await call.segue.accounts.bind(call.body.account, call.body.directory)


async def switch(call: Call) -> AccountSwitched:
    wanted: SwitchBody = call.body
    by_page = call.headers.get("sec-fetch-site") == "same-origin"
    return await call.segue.accounts.switch(
        call.path["key"],
        wanted.account,
        carry=wanted.carry_mode if wanted.carry_context else None,
        cancel=wanted.cancel,
        queued=wanted.queued,
        asked_by="page" if by_page else "api",
    )


async def carries(call: Call) -> list[CarryShown]:
    asked: CarriesQuery = call.query
    return await call.segue.accounts.audit(asked.conversation, limit=asked.limit)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        ACCOUNTS,
        ("Segue.accounts.ls",),
        ls,
        "The configured accounts, with the names of their variables only",
        returns=list[AccountShown],
    ),
    Endpoint(
        "POST",
        ACCOUNTS,
        ("Segue.accounts.add",),
        add,
        "Add an account",
        returns=AccountDetails,
        body=AccountBody,
        status=201,
        local=True,
    ),
    Endpoint(
        "GET",
        ONE,
        ("Segue.accounts.show",),
        show,
        "One account, and a fingerprint of who it is",
        returns=AccountDetails,
    ),
    Endpoint(
        "POST",
        f"{ONE}/limits",
        ("Segue.accounts.refresh",),
        refresh,
        "Ask the account's CLI for its usage limits, if it can tell them without a model",
        returns=LimitsRefreshed,
    ),
    Endpoint("DELETE", ONE, ("Segue.accounts.rm",), rm, "Remove an account", local=True),
    Endpoint(
        "GET",
        f"{ONE}/login",
        ("Segue.accounts.login",),
        login,
        "The command that logs in to the account, for a terminal on this machine",
        returns=LoginCommand,
    ),
    Endpoint(
        "POST",
        f"{ONE}/default",
        ("Segue.accounts.default",),
        default,
        "Make it the default account of its agent",
        returns=AccountDetails,
        body=DefaultBody,
    ),
    Endpoint(
        "PUT",
        "/api/v1/bindings",
        ("Segue.accounts.bind",),
        bind,
        "Use an account in a directory and below it, if none is named",
        returns=list[AccountShown],
        body=BindBody,
    ),
    Endpoint(
        "PATCH",
        "/api/v1/conversations/{key}/account",
        ("Segue.accounts.switch",),
        switch,
        "Continue a conversation under another account",
        returns=AccountSwitched,
        body=SwitchBody,
    ),
    Endpoint(
        "GET",
        "/api/v1/carries",
        ("Segue.accounts.audit",),
        carries,
        "What was carried over from one account to another",
        returns=list[CarryShown],
        query=CarriesQuery,
    ),
)
