"""A run that waited in the queue: made ready when its turn comes, or put back if it never got to work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.core.errors import Broken, Misuse
from segue.core.outcome import Failure
from segue.core.question import OpenQuestion
from segue.core.turn import Transport
from segue.store.records import QUEUED, QueuedRow, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import this_process
from segue.turns.message import withdraw
from segue.turns.prepare import Prepared, prepare
from segue.turns.report import report_row
from segue.turns.request import QueuedRequest
from segue.turns.retries import leaves_view

MOST_CLAIMS = 3
"""How often a run may be begun and lost before it reaches an attempt."""


class ReadyRun(msgspec.Struct, frozen=True):
    """A queued run that can start. ``retry``: the message that it retries, if it is not a new one."""

    prepared: Prepared
    row: TurnRow
    retry: str | None
    missing: tuple[str, ...] = ()
    """Variables that it was given when it was queued, that it needs, and that are not set here."""


def reopen(
    store: Store, queued: QueuedRow, env: Mapping[str, str], transport: Transport = "process"
) -> ReadyRun:
    """Make a queued run ready to start in this process. ``Misuse``: what it needs is gone by now."""
    row = store.turn(queued.id)
    if row is None or queued.request is None:
        raise Broken(f"the run {queued.id} is not in the queue any more")
    request = msgspec.json.decode(queued.request, type=QueuedRequest)
    prepared = prepare(request.ask, env, store, Path(request.ask.here))
    owner = this_process(prepared.host)
    if not store.drive(row.id, owner):
        raise Broken(f"the run {queued.id} is not in the queue any more")
    return ReadyRun(
        msgspec.structs.replace(prepared, run=row.id, transport=transport),
        msgspec.structs.replace(row, owner=owner),
        request.retry,
        _missing(request.ask.environment, prepared),
    )


def _missing(given: Sequence[str], prepared: Prepared) -> tuple[str, ...]:
    """The needed variables: those that the account passes on, and the one that names the agent's home."""
    account = prepared.config.accounts.get(prepared.account) if prepared.account is not None else None
    needed = set(account.pass_env) if account is not None else set()
    if account is None or not account.home:
        with suppress(Misuse):  # a declared agent may have no such variable
            needed |= prepared.agent.home_env(prepared.home).keys()
    return tuple(sorted((needed & set(given)) - prepared.child.env.keys()))


def ask_for_variables(store: Store, queued: QueuedRow, missing: tuple[str, ...]) -> None:
    """The run cannot start before these variables are set: it waits for the user."""
    now_ms = clock.now_ms()
    asked = OpenQuestion(id=clock.new_id(now_ms), kind="environment", variables=missing, asked=now_ms)
    store.wait_for_user(queued, asked.id, msgspec.json.encode(asked).decode())


def waits_for_user(queued: QueuedRow) -> bool:
    """Whether the run waits for the user before it can start."""
    return queued.state == "parked" and queued.not_before_ms is None


def waits_for_answer(store: Store, queued: QueuedRow) -> bool:
    """Whether it was parked by a limit, and the user wrote since: only an answer lets it go on."""
    return waits_for_user(queued) and any(
        each.state == "open" and msgspec.json.decode(each.question, type=OpenQuestion).kind == "went_on"
        for each in store.questions(queued.id)
    )


def back_in_line(store: Store, row: TurnRow) -> bool:
    """Whether a run whose process died had not got as far as an attempt, and now waits again, in its old
    place. Called under the conversation's lease."""
    if row.via != QUEUED:
        return False
    queued = store.queued(row.id)
    if queued is None or queued.claims >= MOST_CLAIMS or queued.cancel_asked_ms is not None:
        return False
    tools_run = row.told.tools_run if row.told is not None else 0
    return store.back_in_line(row.id, leaves=leaves_view(store, row, tools_run))


def take_out(store: Store, row: TurnRow, key: str, failure: Failure, *, hold: bool = False) -> bool:
    """Withdraw a run that waits; one that was parked after its tools had run is ended. False: it has begun.

    ``hold``: as in ``Settlement``."""
    if row.state not in ("queued", "parked"):
        return False
    never = msgspec.structs.replace(row, state="withdrawn")
    withdraw(store, report_row(never, key, failure), hold=hold)
    return True
