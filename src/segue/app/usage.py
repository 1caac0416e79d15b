"""What turns used, cost and saved, added up by day, agent, mode or conversation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import get_args

import msgspec

from segue.app.native import since_ms
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.core.usage import Grouping, Usage
from segue.store.usage_sums import QUARTER_MS, SpentRow
from segue.system import clock


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """What some turns used and cost together. What none of them reported is null."""

    name: str
    """The day (``2026-11-17``, of this machine's clock), agent, mode or key; empty: of the total."""
    turns: int
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    """A part of the cost is an estimate."""
    saved_usd: float | None
    """What continuing sessions saved, compared with sending everything as text."""


class UsageStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of all turns that have ended. A turn counts for the time at which it was asked for."""

    schema: int = 1
    by: Grouping
    since: int | None
    """Milliseconds since 1970; null: from the beginning."""
    sums: tuple[UsageSum, ...]
    """Days: the newest first. Otherwise: what cost most first."""
    total: UsageSum


def usage(workspace: Workspace, *, since: str | None, by: Grouping) -> UsageStatistics:
    if by not in get_args(Grouping):
        raise Misuse(f"usage is added up by {', '.join(get_args(Grouping))}, not by {by!r:.60}")
    from_ms = since_ms(since, clock.now_s()) if since is not None else None
    found = workspace.store.reading.spent(by, from_ms if from_ms is not None else -1)
    sums = _by_day(found) if by == "day" else [_sum(each.name, [each]) for each in found]
    if by == "day":
        sums.sort(key=lambda each: each.name, reverse=True)
    else:
        sums.sort(key=lambda each: (-(each.cost_usd or 0), -each.turns, each.name))
    return UsageStatistics(by=by, since=from_ms, sums=tuple(sums), total=_sum("", found))


def _by_day(quarters: Iterable[SpentRow]) -> list[UsageSum]:
    """A day is as long as the clock of this machine says: it may have 23 or 25 hours."""
    days: dict[str, list[SpentRow]] = {}
    for each in quarters:
        day = datetime.fromtimestamp(int(each.name) * QUARTER_MS / 1000).date().isoformat()
        days.setdefault(day, []).append(each)
    return [_sum(day, rows) for day, rows in days.items()]


def _sum(name: str, rows: Iterable[SpentRow]) -> UsageSum:
    rows = list(rows)
    return UsageSum(
        name=name,
        turns=sum(row.turns for row in rows),
        usage=sum((row.usage for row in rows), Usage()),
        cost_usd=_added(row.cost_usd for row in rows),
        cost_estimated=any(row.cost_estimated for row in rows),
        saved_usd=_added(row.saved_usd for row in rows),
    )


def _added(parts: Iterable[float | None]) -> float | None:
    known = [each for each in parts if each is not None]
    return sum(known) if known else None
