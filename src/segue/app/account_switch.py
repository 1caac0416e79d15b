"""Switching a conversation to another account, and the record of what was carried over."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import msgspec
from anyio.to_thread import run_sync

from segue.app import conversation_changes
from segue.app.runs import cancel_run, settle_lost
from segue.app.workspace import Workspace
from segue.core.errors import InUse, Misuse, SegueError
from segue.core.laws import Door
from segue.core.limits import STALE_MS, used_up
from segue.core.model import Pin
from segue.core.turn import Turn
from segue.core.view import UNKNOWN, account_mark
from segue.store.carries import CarryRow, RecordedMode
from segue.store.records import BEGUN, Conversation
from segue.store.store import Store
from segue.system import clock
from segue.turns.agent_choice import resolve_agent
from segue.turns.gate import may_send
from segue.turns.prepare import login_under
from segue.turns.request import NONE, Options

if TYPE_CHECKING:
    from segue.accounts.switch import Switched, SwitchPlan, SwitchRequest

SUMMARISE = (
    "Summarise what was said, for somebody who continues this work without having seen it: what is wanted,"
    " what was decided and done, what is open, and every name, number and path that matters. Write only the"
    " summary."
)
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
    mode: RecordedMode
    """``none``: nothing could be carried over; ``why`` says why."""
    bytes: int
    turns: int
    omitted: bool
    """There were earlier turns, which are left out."""
    asked_by: str
    cost_usd: float | None
    why: str
    left_out: int
    """How many bytes of the last turn are left out, because that turn alone is over the limit."""


class AccountSwitched(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that was bound to another account."""

    conversation: str
    agent: str
    account: str | None
    carried: CarryShown | None
    """None: nothing should be carried over."""
    hidden: int
    """How many messages the new account is not shown, nor was given by a carry."""
    forbidden: str | None = None
    """The rule that forbids to carry them over, in words; null: none does."""


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
        left_out=row.left_out,
    )


async def switch(
    workspace: Workspace,
    key: str,
    account: str,
    *,
    carry: Carry | None,
    cancel: bool,
    queued: Literal["keep", "move"] | None,
    asked_by: str,
) -> AccountSwitched:
    """See ``Accounts.switch``."""
    from segue.accounts.switch import SwitchRequest, check_switch

    if carry not in (None, "raw", "summary"):
        raise Misuse(f'carry is "{carry}", and can be raw or summary')
    conversation = await run_sync(workspace.conversation, key)
    wanted = SwitchRequest(
        account="" if account == NONE else account, carry=carry or "none", queued=queued, asked_by=asked_by
    )
    if cancel:  # not before it is known that the switch is possible
        check = partial(check_switch, workspace.store, conversation, workspace.config, workspace.env)
        await run_sync(check, wanted)
        await _cancel(workspace, conversation)
    try:
        done = await _bound(workspace, conversation, wanted)
    except InUse as busy:
        how = '--cancel cancels it first (in a request, "cancel")'
        raise InUse(f"{busy.message}; {how}") from None
    return AccountSwitched(
        conversation=conversation.key,
        agent=done.agent,
        account=done.account or None,
        carried=shown(done.carried) if done.carried is not None else None,
        hidden=done.hidden,
        forbidden=done.forbidden or None,
    )


async def _summarised(workspace: Workspace, plan: SwitchPlan) -> SwitchPlan:
    """Let the old account summarise what would be carried over. Whatever fails, the turns are carried over
    as they are."""
    from segue.accounts.switch import with_summary, without_summary

    assert plan.old is not None
    assert plan.block is not None
    carry, pin = workspace.config.carry, plan.old.pin
    if reason := await run_sync(_unable, workspace, plan):
        return without_summary(plan, reason)
    key = f"{plan.conversation.key[:150]}~summary-{clock.random_hex(4)}"
    options: Options = {
        "agent": pin.voice.agent,
        "account": pin.account or NONE,
        "model": carry.summary_model or plan.conversation.model,
        "cwd": plan.conversation.cwd or None,
        "permission": "read",
        "timeout": carry.summary_timeout,
        "budget": carry.summary_budget,
        "questions": "off",
    }
    try:
        turn = await _write_summary(workspace, key, plan.block.text, options, plan.conversation.key)
    except SegueError as error:
        return without_summary(plan, error.message)
    finally:
        with suppress(SegueError):
            await conversation_changes.rm(workspace, key, counts_for=plan.conversation.key)
    if turn.failure is not None or not turn.text:
        return without_summary(plan, turn.failure.message if turn.failure else "it is empty", turn.cost_usd)
    return with_summary(plan, turn.text, turn.cost_usd, carry.max_bytes)


def _unable(workspace: Workspace, plan: SwitchPlan) -> str | None:
    """Why the old account cannot write a summary now; None: it can."""
    assert plan.old is not None
    store, config, conversation, pin = workspace.store, workspace.config, plan.conversation, plan.old.pin
    cwd = Path(conversation.cwd or "/")
    try:
        agent, _, account = resolve_agent(pin.voice.agent, pin.account, config, workspace.env, cwd)
    except SegueError as error:
        return error.message
    login = login_under(agent, pin.account, account, workspace.env, store)
    if login != (pin.login or UNKNOWN):
        return "another login is active in its account"
    marks, mine = plan.old.marks, account_mark(pin.voice.agent, pin.account, login)
    if (refused := may_send(config, marks, mine, "user")) is not None:
        return refused.message
    now_ms = clock.now_ms()
    limited = used_up(store.limits(pin.voice.agent, pin.account, login), now_ms)
    return "its account is limited" if limited or _refused(store, conversation, pin, now_ms) else None


def _refused(store: Store, conversation: Conversation, pin: Pin, now_ms: int) -> bool:
    """Whether the last turn of the account met a limit of which nothing else is known."""
    for row in reversed(store.turns(conversation.id, 20)):
        if row.account == pin.account and row.told is not None:
            failure = row.told.failure
            is_limit = failure is not None and failure.kind == "rate_limited" and failure.until is None
            return is_limit and now_ms - (row.ended_ms or 0) < STALE_MS
    return False


async def _write_summary(
    workspace: Workspace, key: str, said: str, options: Options, counts_for: str
) -> Turn:
    """In a conversation of its own, and not saved as a session if the agent supports that. ``counts_for``:
    the conversation whose budget it counts for."""
    from segue.app.ready_turn import ready_turn

    text = f"{said}\n\n{SUMMARISE}"
    try:
        unsaved = cast("Options", {**options, "save": False})
        ready = await run_sync(partial(ready_turn, workspace, key, text, unsaved, door=Door.SUMMARY))
    except Misuse:
        ready = await run_sync(partial(ready_turn, workspace, key, text, options, door=Door.SUMMARY))
    return await ready.counting_for(counts_for).run()


async def _bound(workspace: Workspace, conversation: Conversation, wanted: SwitchRequest) -> Switched:
    """Read the old session, and bind the conversation to the new account."""
    from segue.accounts.switch import plan_switch, switch

    store, config = workspace.store, workspace.config
    async with conversation_changes.held(workspace, conversation):
        plan = await run_sync(
            partial(plan_switch, store, conversation, config, workspace.env, workspace.host, wanted)
        )
        if wanted.carry == "summary" and plan.block is not None:
            plan = await _summarised(workspace, plan)
        return await run_sync(switch, store, config, plan)


async def _cancel(workspace: Workspace, conversation: Conversation) -> None:
    """End the runs of the conversation that have begun, and wait for their ends."""
    store = workspace.store

    def running() -> list[str]:
        return [row.id for row in store.unsettled(conversation.id) if row.state in BEGUN]

    for run in await run_sync(running):
        if await run_sync(cancel_run, workspace, run):
            await settle_lost(workspace, run)
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
