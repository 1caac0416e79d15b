"""What turns used, cost and saved, added up by day, agent and other things; and what did not pay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import fsum
from typing import get_args

import msgspec

from segue.app.native import since_ms
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.core.turn import Clause, Mode
from segue.core.usage import Grouping, Usage
from segue.core.verdicts import Said, notices_of, say
from segue.store.usage_sums import QUARTER_MS, SpentRow, UnpaidRow
from segue.system import clock

MOST_UNPAID = 1_000


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """What some turns used and cost together. What none of them reported is null."""

    name: str
    """The day (``2026-11-17``, of this machine's clock), agent, mode, key, or agent and version; empty: of
    the total."""
    turns: int
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    """A part of the cost is an estimate."""
    saved_usd: float | None
    """What continuing sessions saved, compared with sending everything as text."""
    predicted_usd: float | None = None
    """What was predicted, before they ran, for those turns whose prediction and cost are both known."""
    predicted_cost_usd: float | None = None
    """What those turns really cost."""
    resumed: int = 0
    """How many turns continued a session (``resume`` or ``branch``)."""
    parts: tuple[UsageSum, ...] = ()
    """The same turns by the second grouping, if one was asked for."""


class UsageStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of all turns that have ended. A turn counts for the time at which it was asked for."""

    schema: int = 1
    by: Grouping
    since: int | None
    """Milliseconds since 1970; null: from the beginning."""
    sums: tuple[UsageSum, ...]
    """Days: the newest first. Otherwise: what cost most first."""
    total: UsageSum
    split: Grouping | None = None


class UnpaidTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that continued a session, although sending everything as text would have cost less."""

    run: str
    conversation: str
    message: str
    agent: str
    agent_version: str | None
    model: str | None
    mode: Mode | None
    created: int
    cost_usd: float | None
    saved_usd: float | None
    usage: Usage
    reason: str
    """Why continuing did not pay, in words."""
    clauses: tuple[Clause, ...] = ()
    """The same reason as data; empty for turns of older versions."""


def usage(
    workspace: Workspace, *, since: str | None, by: Grouping, split: Grouping | None = None
) -> UsageStatistics:
    for each in (by, split):
        if each is not None and each not in get_args(Grouping):
            raise Misuse(f"usage is added up by {', '.join(get_args(Grouping))}, not by {each!r:.60}")
    if by == split:
        raise Misuse(f"usage by {by} cannot be split by {split} again")
    from_ms = _since(since)
    rows = workspace.store.reading.spent(by, from_ms if from_ms is not None else -1, split)
    found = [_in_days(row, by, split) for row in rows]
    return UsageStatistics(
        by=by,
        since=from_ms,
        sums=_sums(_grouped(found, "name"), by, split),
        total=_sum("", found, split),
        split=split,
    )


def unpaid(workspace: Workspace, *, since: str | None, limit: int) -> list[UnpaidTurn]:
    from segue.turns.result import UNCACHED

    if not 1 <= limit <= MOST_UNPAID:
        raise Misuse(f"the limit must be between 1 and {MOST_UNPAID:,}, not {limit}")
    found = workspace.store.reading.unpaid(_since(since) or -1, UNCACHED, limit)
    return [turn for row in found if (turn := _unpaid(row, UNCACHED)) is not None]


def _unpaid(row: UnpaidRow, uncached: str) -> UnpaidTurn | None:
    turn, told = row.turn, row.turn.told
    if told is None:
        return None
    saved = told.saved.usd
    reason = next((each for each in notices_of(told) if uncached in each.text), None)
    if reason is None and saved is not None and saved < 0:
        reason = _cost_more(-saved)
    if reason is None:
        return None
    return UnpaidTurn(
        run=turn.id,
        conversation=row.key,
        message=turn.message,
        agent=turn.voice.agent,
        agent_version=told.agent_version,
        model=told.model or turn.model,
        mode=turn.mode,
        created=turn.started_ms,
        cost_usd=told.cost_usd,
        saved_usd=saved,
        usage=told.usage,
        reason=reason.text,
        clauses=reason.clauses,
    )


def _cost_more(usd: float) -> Said:
    if usd < 0.001:
        return say("it cost a little more than sending everything as text", "usage.little_more")
    return say(f"it cost about ${usd:.3f} more than sending everything as text", "usage.more", usd=usd)


def _since(text: str | None) -> int | None:
    return since_ms(text, clock.now_s()) if text is not None else None


def _in_days(row: SpentRow, by: Grouping, split: Grouping | None) -> SpentRow:
    """The row with the day's name instead of the quarter's number."""
    if by == "day":
        return msgspec.structs.replace(row, name=_day(row.name))
    return msgspec.structs.replace(row, part=_day(row.part)) if split == "day" else row


def _day(quarter: str) -> str:
    """A day is as long as the clock of this machine says: it may have 23 or 25 hours."""
    return datetime.fromtimestamp(int(quarter) * QUARTER_MS / 1000).date().isoformat()


def _sums(
    rows: dict[str, list[SpentRow]], by: Grouping, split: Grouping | None = None
) -> tuple[UsageSum, ...]:
    sums = [_sum(name, each, split) for name, each in rows.items()]
    if by == "day":
        sums.sort(key=lambda each: each.name, reverse=True)
    else:
        sums.sort(key=lambda each: (-(each.cost_usd or 0), -each.turns, each.name))
    return tuple(sums)


def _sum(name: str, rows: Sequence[SpentRow], split: Grouping | None = None) -> UsageSum:
    return UsageSum(
        name=name,
        turns=sum(row.turns for row in rows),
        usage=sum((row.usage for row in rows), Usage()),
        cost_usd=_added(row.cost_usd for row in rows),
        cost_estimated=any(row.cost_estimated for row in rows),
        saved_usd=_added(row.saved_usd for row in rows),
        predicted_usd=_added(row.predicted_usd for row in rows),
        predicted_cost_usd=_added(row.predicted_cost_usd for row in rows),
        resumed=sum(row.resumed for row in rows),
        parts=_sums(_grouped(rows, "part"), split) if split is not None else (),
    )


def _grouped(rows: Iterable[SpentRow], by: str) -> dict[str, list[SpentRow]]:
    groups: dict[str, list[SpentRow]] = {}
    for row in rows:
        groups.setdefault(getattr(row, by), []).append(row)
    return groups


def _added(parts: Iterable[float | None]) -> float | None:
    known = [each for each in parts if each is not None]
    return fsum(known) if known else None
