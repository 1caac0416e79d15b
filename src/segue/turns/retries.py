"""Retries: automatic ones after a temporary failure, and those where the user sends the same text again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from segue.core.errors import Misuse, StoreAway
from segue.core.turn import Turn, status_of
from segue.store.database import storable
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.loop import anyio, in_loop
from segue.turns.prepare import Prepared

RECENT = 20
"""How many recent runs are searched for the same text."""
FIRST_S, LONGEST_S = 2.0, 60.0
"""The first pause, doubled each time up to the longest, if the failure does not say how long to wait."""
DOUBLED = 10
"""Cap on the exponent: beyond it the pause is ``LONGEST_S`` anyway."""
LATE_S = 2.0
"""The longest random delay after a limit ends, so that not all clients come back at the same moment."""
STEP_S = 0.1
WAITS = ("queued", "parked")


def failed_with_same_text(prepared: Prepared, store: Store, retried: str | None = None) -> TurnRow | None:
    """The last run, if it failed with the same text: then this turn is its retry.

    ``retried``: the message that it retries in any case."""
    ask = prepared.ask
    if retried is not None or ask.via != "run" or ask.new or ask.key is not None:
        return None
    runs = [run for run in store.failed_turns(prepared.conversation.id, RECENT) if _is_temporary(run)]
    if not runs:
        return None
    texts, prompt = store.texts([run.message for run in runs]), storable(ask.prompt)
    same = [run for run in runs if texts.get(run.message) == prompt]
    attached = store.attachments([run.message for run in same])
    same = [run for run in same if attached.get(run.message, ()) == ask.attachments]
    return same[-1] if same and still_last(store, same[-1]) else None


def still_last(store: Store, run: TurnRow) -> bool:
    """Whether nothing was said since that run ended, and a plain ``segue run`` made it.

    A message that was dropped or edited in the meantime is not the same message.
    """
    runs = store.runs_of([run.message])[run.message]
    if runs[0].via != "run" or runs[-1].id != run.id or not all(map(did_nothing, runs)):
        return False
    later = (each for each in store.turns(run.conversation, RECENT) if each.state != "withdrawn")
    if any(_settled_after(each, run) for each in later if each.id != run.id and each.state != "queued"):
        return False
    never_begun = (each for each in store.unplaced(run.conversation) if each.state == "withdrawn")
    if run.message in {each.message for each in never_begun}:
        return True
    last = store.messages(run.conversation)[-1:]
    return [(message.id, message.revision) for message in last] == [(run.message, 1)]


def _is_temporary(run: TurnRow) -> bool:
    """Whether the run is over and did nothing, and a retry may succeed."""
    if status_of(run.state) is None:
        return False
    if run.state == "withdrawn" or not did_nothing(run):
        return run.state == "withdrawn"
    failure = run.told.failure if run.told is not None else None
    return run.state == "cancelled" or (failure is not None and failure.retryable)


def did_nothing(run: TurnRow) -> bool:
    """Whether no tool has run in it."""
    return run.state == "withdrawn" or (run.told is not None and run.told.tools_run == 0)


def leaves_view(store: Store, row: TurnRow, tools_run: int | None) -> bool:
    """Whether the message of a run that waits again leaves the conversation until the run begins: nothing was
    done for it. ``tools_run``: how many tools have run in this run so far."""
    others = [run for run in store.runs_of([row.message]).get(row.message, []) if run.id != row.id]
    return tools_run == 0 and all(
        run.answer is None and (did_nothing(run) or (run.told is None and run.state in WAITS))
        for run in others
    )


def _settled_after(run: TurnRow, other: TurnRow) -> bool:
    return run.ended_ms is None or other.ended_ms is None or run.ended_ms > other.ended_ms


def pause_s(turn: Turn, retried: int, now_ms: int, chance: float) -> float | None:
    """How long to wait before the next retry; None if a retry would not help or may do harm.

    ``retried``: the number of retries so far. ``chance``: from 0 to 1, to spread clients that fail together.
    """
    failure = turn.failure
    if failure is None or not failure.retryable or turn.tools_run is None or status_of(turn.state) is None:
        return None
    if failure.until is not None and failure.until > now_ms:
        return (failure.until - now_ms) / 1000 + chance * LATE_S
    return min(FIRST_S * float(2 ** min(retried, DOUBLED)), LONGEST_S) * (0.5 + chance / 2)


def _in_doubt(turn: Turn) -> bool:
    """Whether it would be retried if it were known that it did nothing."""
    return turn.tools_run is None and turn.failure is not None and turn.failure.retryable


async def retry_while_temporary(
    first: Turn,
    retries: int,
    retry: Callable[[Turn], Awaitable[Turn]],
    given_up: Callable[[], bool],
    notice: Callable[[str], None],
) -> Turn:
    """Retry the message up to ``retries`` times, as long as its failure is temporary."""
    turn, earlier = first, list(first.earlier)
    for retried in range(retries):
        pause = pause_s(turn, retried, clock.now_ms(), clock.chance())
        if pause is None and _in_doubt(turn):
            notice("not retried: it is not known whether it did anything")
        if pause is None or given_up():
            break
        why = turn.failure.kind.replace("_", " ") if turn.failure is not None else ""
        notice(f"{why}: retrying in {_words(pause)} ({retried + 1} of {retries})")
        await in_loop()
        if not await _waited(pause, given_up):
            notice("not retried: cancelled")
            break
        try:
            later = await retry(turn)
        except (Misuse, StoreAway) as error:  # the result of the last run is still reported
            notice(f"not retried: {error}")
            break
        earlier += [turn.run, *later.earlier]
        turn = later
    return msgspec.structs.replace(turn, earlier=tuple(earlier)) if earlier else turn


async def _waited(seconds: float, given_up: Callable[[], bool]) -> bool:
    until = clock.now_s() + seconds  # wall-clock time: a machine that slept has waited too
    while (left := until - clock.now_s()) > 0:
        if given_up():
            return False
        await anyio.sleep(min(STEP_S, left))
    return not given_up()


def _words(seconds: float) -> str:
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 6_000 else f"{seconds / 3600:.1f} h"
