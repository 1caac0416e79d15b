"""What follows from how a turn of a flow ended: the step is over, it is tried again, or later.

What came from outside is no result: a kill, a limit, the network. The ladder continues the turn then, as it
does for any other. What the agent itself did wrong is the flow's own business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from segue.core.outcome import Kind
from segue.core.turn import Turn, status_of

MOST_TRIES = 6
"""How often a turn is begun that is killed, or cannot reach its model, before that is its result."""
FIRST_MS, LONGEST_MS = 5_000, 900_000
"""The first pause, doubled each time up to the longest, if nobody knows when it will work again."""
OUTSIDE: tuple[Kind, ...] = ("network", "model_error", "session_busy")
SETBACKS: tuple[Kind, ...] = ("killed", *OUTSIDE)


class Aftermath(msgspec.Struct, frozen=True):
    """``follow``: the run is not settled, and is looked at again. ``again``: another try now. ``later``:
    another try at ``wake_ms``."""

    what: Literal["done", "follow", "again", "later"]
    wake_ms: int | None = None


DONE, FOLLOW, AGAIN = Aftermath("done"), Aftermath("follow"), Aftermath("again")


def judge(turn: Turn, tries: int, now_ms: int) -> Aftermath:
    """``tries``: how often it has ended like this so far, as ``tries_like`` counts."""
    failure = turn.failure
    if status_of(turn.state) is None or (failure is not None and failure.kind == "unsettled"):
        return FOLLOW
    if failure is None or failure.kind == "cancelled":
        return DONE
    if failure.kind == "rate_limited":
        until = failure.until if failure.until is not None and failure.until > now_ms else 0
        least = now_ms + pause_ms(tries) if tries > 1 or not until else 0
        return Aftermath("later", max(until, least))
    if tries >= MOST_TRIES:
        return DONE
    if failure.kind == "killed":
        return AGAIN
    if failure.kind in OUTSIDE and failure.retryable:
        return Aftermath("later", now_ms + pause_ms(tries))
    return DONE


def tries_like(turn: Turn, before: Iterable[Kind]) -> int:
    """How often a step has met what this turn met: setbacks, or limits. ``before``: how its earlier runs
    failed. A raised budget, a pause or a cancelled run is no setback."""
    kind = turn.failure.kind if turn.failure is not None else None
    alike = SETBACKS if kind in SETBACKS else (kind,)
    return 1 + sum(each in alike for each in before)


def pause_ms(tries: int) -> int:
    """The pause after this many tries."""
    return int(min(FIRST_MS * 2 ** min(tries - 1, 10), LONGEST_MS))
