"""Parked at a limit: a run that waits for the limit to end, and continues under its own id.

If no tool had run, its message leaves the conversation until it wakes. Otherwise the session is kept, and the
agent is told to go on. When a limit ends, the oldest run that waits for it tries first; the others wait until
it is clear that the limit is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import anyio
import msgspec

from segue.config.schema import Config
from segue.core.errors import Misuse, StoreAway
from segue.core.limits import wait_until
from segue.core.model import Host
from segue.core.outcome import Failure
from segue.core.question import DROP, GO_ON
from segue.core.turn import PARKED, Turn, status_of
from segue.core.verdicts import Said, say
from segue.store.records import BEGUN, QUEUED, Parking, QueuedRow, TurnRow
from segue.store.store import Store
from segue.store.waiting_turn import WaitingTurn
from segue.system.loop import run_sync
from segue.system.processes import owner_lives, this_process
from segue.turns.follow import reported
from segue.turns.live_turn import Callbacks, LiveTurn
from segue.turns.message import stored_request
from segue.turns.other_account import other_account
from segue.turns.prepare import Prepared
from segue.turns.queued_run import take_out, waits_for_answer, waits_for_user
from segue.turns.request import QueuedRequest, TurnRequest
from segue.turns.retries import leaves_view
from segue.turns.settlement import FinishedAttempt

CANCELLED = Failure("cancelled", "it was cancelled while it was parked")
STEP_S, LOOK_S = 0.1, 0.5
"""How often to check whether it was cancelled, and whether the store knows something new."""
PROVEN = ('{"type":"text"', '{"type":"thinking"', '{"type":"tool-call"')
"""How the events begin that show that the model answers."""
PROVEN_MS = 120_000
"""A run that has worked for this long without meeting the limit shows it, too."""
ANSWER = 0
"""It waits until the user has answered."""
JUST_NOW_MS = 60_000
"""For how long a process that cannot be seen from here counts as alive."""


def parking_of(live: LiveTurn, last: FinishedAttempt, turn: Turn) -> Parking | None:
    """How the run is parked, if its limit ends in time and nothing would be done twice; None: it fails."""
    if other_account(live.prepared, live.store, turn) is not None:
        return None  # that account takes the message
    ask = msgspec.structs.replace(live.prepared.ask, cut=False, adopt=None)
    again = msgspec.structs.replace(live.prepared, ask=ask)
    longest_ms = 0 if live.cancelled else _longest_ms(ask, again.config, live.row)

    def request(retry: str | None) -> str:
        return stored_request(again, retry)

    return _parking(live.store, live.row, last, turn, longest_ms, again.config, request)


def given_up(live: LiveTurn, last: FinishedAttempt) -> Said | None:
    """What the user is told if it has waited for the limit as often as it may; None: it has not."""
    most = live.prepared.config.limits.max_windows
    if live.row.told is None or wakes_of(live.store, live.row, last.plan.attempt) < most:
        return None
    waits = "the wait" if most == 1 else f"each of {most} waits"
    return say(f"not parked again: it has met the limit after {waits}", "notice.max_windows", count=most)


def later_parking(
    store: Store, row: TurnRow, last: FinishedAttempt, turn: Turn, config: Config
) -> Parking | None:
    """The same for a queued run whose process died while it ran."""
    queued = store.queued(row.id)
    if row.via != QUEUED or queued is None or queued.request is None:
        return None
    stored = msgspec.json.decode(queued.request, type=QueuedRequest)

    def request(retry: str | None) -> str:
        return msgspec.json.encode(msgspec.structs.replace(stored, retry=retry)).decode()

    return _parking(store, row, last, turn, _longest_ms(stored.ask, config, row), config, request)


def _parking(
    store: Store,
    row: TurnRow,
    last: FinishedAttempt,
    turn: Turn,
    longest_ms: float,
    config: Config,
    request: Callable[[str | None], str],
) -> Parking | None:
    """``request``: makes what is stored, from the message that the run retries, if it is no new one."""
    failure = turn.failure
    if failure is None or failure.kind != "rate_limited" or failure.until is None:
        return None
    if turn.tools_run is None or (last.outcome.tools_run and last.result.native_id is None):
        return None  # it is not known where to continue
    wakes, now_ms = wakes_of(store, row, last.plan.attempt), store.clock_ms()
    until_ms = wait_until(failure.until, now_ms, wakes)
    if wakes >= config.limits.max_windows or not 0 < until_ms - now_ms <= longest_ms:
        return None
    leaves = leaves_view(store, row, turn.tools_run)
    return Parking(until_ms=until_ms, request=request(None if leaves else row.message), leaves=leaves)


def wakes_of(store: Store, row: TurnRow, attempt: str) -> int:
    """How often the run has waited for the end of a limit. ``attempt``: the last one, which has met it."""
    earlier = (each for each in store.attempts(row.id) if each.id != attempt)
    return sum(each.outcome == "rate_limited" for each in earlier)


def _longest_ms(ask: TurnRequest, config: Config, row: TurnRow) -> float:
    """For how long it may be parked."""
    park = ask.park
    if park is None:
        park = row.via == QUEUED and config.on_limit(row.account) != "fail"
    if isinstance(park, bool):
        return float("inf") if park else 0
    return park * 1000


async def wait_parked(
    prepared: Prepared, store: Store, run: str, callbacks: Callbacks
) -> TurnRow | Turn | None:
    """Wait until a parked run wakes. The run: it is ours to continue; the turn: it is over; None: another
    process has begun it."""
    told_until, look_at = -1, 0.0
    sign = WaitingTurn(store, run, this_process(prepared.host))
    await run_sync(sign.begin)
    try:
        while True:
            if callbacks.cancel.asked:
                return await run_sync(_cancelled, prepared, store, run)
            if time.monotonic() >= look_at:
                found: TurnRow | Turn | int | None = told_until
                with suppress(StoreAway):
                    found = await run_sync(_look, prepared, store, run)
                if not isinstance(found, int):
                    return found
                if found != told_until:
                    told_until = found
                    callbacks.notice(_told(run, found))
                look_at = time.monotonic() + LOOK_S
            await anyio.sleep(STEP_S)
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(sign.end)


def _told(run: str, until_ms: int) -> str:
    if until_ms == ANSWER:
        return f'you wrote since: segue answer {run} "{GO_ON}", or "{DROP}"'
    return f"{PARKED} {_moment(until_ms)}: a usage limit was reached"


def _look(prepared: Prepared, store: Store, run: str) -> TurnRow | Turn | int | None:
    """As ``wait_parked``, if it is not parked any more; otherwise until when it is, or ``ANSWER``."""
    row, queued = _row(store, run), store.queued(run)
    if status_of(row.state) is not None:
        return reported(row, prepared.ask.conversation)
    if queued is None or row.state in BEGUN:
        return None
    if waits_for_answer(store, queued):
        return ANSWER
    if row.state == "queued" or _woken(prepared, store, row, queued):
        return _ours(prepared, store, run)
    until_ms = queued.not_before_ms or 0
    if until_ms - store.clock_ms() > _longest_ms(prepared.ask, prepared.config, row):
        # The limit was extended while it was parked.
        failure = row.told.failure if row.told is not None else None
        why = failure.message if failure is not None else "the limit ends too late"
        return _taken_out(prepared, store, row, Failure("rate_limited", why, until=until_ms))
    return until_ms


def _row(store: Store, run: str) -> TurnRow:
    row = store.turn(run)
    if row is None:
        raise Misuse(f"the run {run} was deleted")
    return row


def _cancelled(prepared: Prepared, store: Store, run: str) -> Turn | None:
    row = _row(store, run)
    return None if row.state in BEGUN else _taken_out(prepared, store, row, CANCELLED)


def _taken_out(prepared: Prepared, store: Store, row: TurnRow, failure: Failure) -> Turn:
    key = prepared.ask.conversation
    take_out(store, row, key, failure)
    return reported(store.turn(row.id) or row, key)


def _woken(prepared: Prepared, store: Store, row: TurnRow, queued: QueuedRow) -> bool:
    """Whether its time has come, it may try, and nobody else has woken it. If its tools have run, it stays in
    the queue until it has begun: it must not be withdrawn if this process dies."""
    if not due(store, queued) or not may_try(store, row, prepared.host):
        return False
    did_something = row.told is None or row.told.tools_run != 0
    return store.wake(queued, QUEUED if did_something else prepared.ask.via)


def _ours(prepared: Prepared, store: Store, run: str) -> TurnRow | None:
    """This process runs it; None: another one has begun it."""
    owner = this_process(prepared.host)
    row = store.turn(run) if store.drive(run, owner) else None
    return msgspec.structs.replace(row, owner=owner) if row is not None else None


def left_s_of(store: Store, parked: QueuedRow, host: Host) -> float:
    """For how long it stays parked; 0 or less: it can start."""
    left_s = ((parked.not_before_ms or 0) - store.clock_ms()) / 1000
    row = store.turn(parked.id) if left_s <= 0 else None
    return LOOK_S if row is not None and not may_try(store, row, host) else left_s


def due(store: Store, queued: QueuedRow) -> bool:
    """Whether the time of a parked run has come, by the database's clock."""
    return (queued.not_before_ms or 0) <= store.clock_ms()


def may_try(store: Store, row: TurnRow, host: Host) -> bool:
    """Whether a parked run whose time has come may start: no other run tries the same limit before it."""
    if row.told is None:  # it was parked by the user
        return True
    mine = (row.started_ms, row.id)
    return not any(
        _tries(store, each, host) if each.state != "parked" else _is_next(store, each, mine, host)
        for each in store.limited(row.id)
    )


def _is_next(store: Store, other: TurnRow, mine: tuple[int, str], host: Host) -> bool:
    """Whether an older run is about to try."""
    if (other.started_ms, other.id) > mine or not owner_lives(other.owner, host, JUST_NOW_MS):
        return False
    line = store.line(other.conversation)
    first = line[0] if line else None
    if first is None or first.id != other.id or first.held_by is not None or waits_for_user(first):
        return False
    return due(store, first)


def _tries(store: Store, other: TurnRow, host: Host) -> bool:
    """Whether a run that has woken does not know yet whether the limit is over."""
    if not owner_lives(other.owner, host, JUST_NOW_MS):
        return False
    if other.state not in BEGUN:  # it waits for another turn, or is about to begin
        return not any(each.state in BEGUN for each in store.unsettled(other.conversation))
    begun_ms = [each.started_ms for each in store.attempts(other.id) if each.ended_ms is None]
    if not begun_ms:
        return True
    since_ms = max(begun_ms)
    if store.clock_ms() - since_ms > PROVEN_MS:
        return False
    events = store.events(other.id)
    return not any(ms >= since_ms and event.startswith(PROVEN) for _, ms, event in events)


def _moment(ms: int) -> str:
    """The local time; with the date, if it is not today."""
    then = time.localtime(ms / 1000)
    today = time.strftime("%Y-%m-%d", then) == time.strftime("%Y-%m-%d")
    return time.strftime("%H:%M" if today else "%Y-%m-%d %H:%M", then)
