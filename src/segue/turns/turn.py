"""The way of a turn.

message ─▶ store ─▶ lease ─▶ decide ─▶ compose ─▶ launch ─▶ stream ─▶ settle ─▶ pin ─▶ reply
                               ▲                                        │
                               └──────────── step down (once) ──────────┘
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec
from anyio.to_thread import run_sync

from segue.core.history import account_mark
from segue.core.keys import new_id
from segue.core.model import Message
from segue.core.outcome import Failure
from segue.core.turn import Turn
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.turns import changes, recovery
from segue.turns.answering import Answerer
from segue.turns.attempt import Cancel
from segue.turns.attempts import Attempts, Company
from segue.turns.lease import Busy, hold, lease_name
from segue.turns.owners import this_process
from segue.turns.prepared import Prepared
from segue.turns.report import told_without
from segue.turns.telling import Listener

WAIT_S = 600.0
"""How long a turn waits for another one of its conversation, unless told otherwise."""


async def take(
    prepared: Prepared,
    store: Store,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
    on_notice: Callable[[str], None] | None = None,
    again: str | None = None,
) -> Turn:
    """Run the turn to its end and say what happened. ``again``: the message to answer once more."""
    began = time.monotonic_ns()
    cancel = cancel or Cancel()
    company = Company(on_event, answer, cancel, on_notice or _nobody)
    if prepared.ask.fork:
        prepared = await run_sync(changes.forked_if_busy, prepared, store, company.notice)
    prepared, row = await run_sync(_heard, prepared, store, again)
    try:
        async with hold(
            store,
            lease_name(prepared.conversation.id),
            owner=row.owner,
            locks=prepared.segue_home.locks,
            wait_s=_wait_s(prepared),
            on_wait=lambda holder: company.notice(
                f"waiting for another turn of {prepared.ask.key} ({holder})"
            ),
            given_up=lambda: cancel.asked > 0,
            lost=cancel,
        ) as lease:
            await recovery.recover(prepared, store, row.id, company)
            await run_sync(changes.begin, prepared, store, row, again)
            return await Attempts(prepared, store, row, lease, company).run(began)
    except Busy as busy:
        failure = (
            Failure("cancelled", "the turn was cancelled before it began")
            if cancel.asked
            else Failure("session_busy", str(busy))
        )
        turn = told_without(prepared, failure, (time.monotonic_ns() - began) // 1_000_000)
        await run_sync(changes.given_up, store, row, turn)
        return turn


def _heard(prepared: Prepared, store: Store, again: str | None) -> tuple[Prepared, TurnRow]:
    """Store the message before anything else happens; it gets its place once the turn begins."""
    now_ms = time.time_ns() // 1_000_000
    voice, account = prepared.voice, prepared.account_name
    message = Message(
        id=again or new_id(now_ms, os.urandom(10)),
        sender="user",
        voice=voice,
        account=account,
        under=(account_mark(voice.agent, account),),
        blank=prepared.ask.blank,
        size=len(prepared.ask.prompt.encode()),
    )
    row = TurnRow(
        id=prepared.run,
        conversation=prepared.conversation.id,
        message=message.id,
        voice=voice,
        account=account,
        model=prepared.model,
        cwd=str(prepared.request.cwd),
        host=prepared.host,
        status="waiting",
        owner=this_process(prepared.host),
        started_ms=now_ms,
    )
    if again is not None:
        store.again(row)
        return prepared, row
    stored = store.hear(prepared.conversation, message, prepared.ask.prompt, row)
    return (
        msgspec.structs.replace(prepared, conversation=stored),
        msgspec.structs.replace(row, conversation=stored.id),
    )


def _wait_s(prepared: Prepared) -> float:
    for wanted in (prepared.ask.wait_s, prepared.config.defaults.wait):
        if wanted is not None:
            return wanted
    return WAIT_S


def _nobody(_: str) -> None:
    """The listener of those who do not listen."""
