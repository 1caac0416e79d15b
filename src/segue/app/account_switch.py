"""Switching a conversation to another account, and the record of what was carried over."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec
from anyio.to_thread import run_sync

from segue.app.workspace import Workspace
from segue.core.errors import Gone, InUse, Misuse
from segue.store.carries import CarryRow
from segue.store.records import BEGUN, Conversation
from segue.turns.request import NONE

if TYPE_CHECKING:
    from segue.app.segue import Segue

CANCEL_WAIT_S = 60.0
POLL_S = 0.05
MOST = 1000

Carry = Literal["raw", "summary"]


class CarryShown(msgspec.Struct, frozen=True, kw_only=True):
    """What was carried over at a switch. Times are milliseconds since 1970."""

    conversation: str
    at: int
    from_agent: str
    from_account: str | None
    to_agent: str
    to_account: str | None
    mode: Literal["none", "raw", "summary"]
    """``none``: nothing could be carried over; ``why`` says why."""
    bytes: int
    turns: int
    omitted: bool
    """There were earlier turns, which are left out."""
    asked_by: str
    cost_usd: float | None
    why: str


class AccountSwitched(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that was bound to another account."""

    conversation: str
    agent: str
    account: str | None
    carried: CarryShown | None
    """None: nothing should be carried over."""
    hidden: int
    """How many messages the new account is not shown."""


def shown(row: CarryRow) -> CarryShown:
    return CarryShown(
        conversation=row.conversation,
        at=row.at_ms,
        from_agent=row.from_agent,
        from_account=row.from_account or None,
        to_agent=row.to_agent,
        to_account=row.to_account or None,
        mode=row.mode,
        bytes=row.bytes,
        turns=row.turns,
        omitted=row.omitted,
        asked_by=row.asked_by,
        cost_usd=row.cost_usd,
        why=row.why,
    )


async def switch(
    segue: Segue,
    conversation: Conversation,
    account: str,
    *,
    carry: Carry | None,
    cancel: bool,
    queued: Literal["keep", "move"] | None,
    asked_by: str,
) -> AccountSwitched:
    """See ``Conversations.switch``."""
    from segue.accounts.switch import SwitchRequest
    from segue.accounts.switch import switch as bind

    if carry not in (None, "raw", "summary"):
        raise Misuse(f'carry is "{carry}", and can be raw or summary')
    workspace = segue.workspace
    if cancel:
        await _cancel(segue, conversation)
    wanted = SwitchRequest(
        account="" if account == NONE else account, carry=carry or "none", queued=queued, asked_by=asked_by
    )
    async with segue.changing(conversation):
        done = await run_sync(
            partial(
                bind,
                workspace.store,
                conversation,
                workspace.config,
                workspace.env,
                workspace.host,
                wanted,
            )
        )
    return AccountSwitched(
        conversation=conversation.key,
        agent=done.agent,
        account=done.account or None,
        carried=shown(done.carried) if done.carried is not None else None,
        hidden=done.hidden,
    )


async def _cancel(segue: Segue, conversation: Conversation) -> None:
    """End the runs of the conversation that have begun, and wait for their ends."""
    store = segue.workspace.store

    def running() -> list[str]:
        return [row.id for row in store.unsettled(conversation.id) if row.state in BEGUN]

    for run in await run_sync(running):
        try:
            await segue.runs.cancel(run)
        except Gone:
            continue
    try:
        async with asyncio.timeout(CANCEL_WAIT_S):
            while await run_sync(running):  # noqa: ASYNC110 - any process may end it
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise InUse(f"{conversation.key} is still running, although it was cancelled; try again") from None


def carries(workspace: Workspace, key: str | None, limit: int) -> list[CarryShown]:
    """The newest first. Of a conversation that was deleted, too."""
    if not 1 <= limit <= MOST:
        raise Misuse(f"limit is {limit}, and must be between 1 and {MOST:,}")
    return [shown(row) for row in workspace.store.carries.carries(key, limit)]
