"""What turns used and cost, added up; and the turns for which continuing a session did not pay."""

from __future__ import annotations

import msgspec

from segue.core.usage import Grouping, Usage
from segue.store.database import Queries
from segue.store.records import TurnRow
from segue.store.turns import Turns, turn_of

_SQL = Queries("reading")
QUARTER_MS = 15 * 60_000
"""The offset of every time zone is a multiple of this."""


class SpentRow(msgspec.Struct, frozen=True, kw_only=True):
    """What some turns used and cost together. ``name``, ``part``: what they have in common; of a day, the
    number of a quarter of an hour since 1970."""

    name: str
    part: str
    turns: int
    resumed: int
    """How many of them continued a session."""
    usage: Usage
    cost_usd: float | None
    cost_estimated: bool
    saved_usd: float | None
    predicted_usd: float | None
    """What was predicted for those whose prediction and cost are known."""
    predicted_cost_usd: float | None
    """What those cost."""


class UnpaidRow(msgspec.Struct, frozen=True):
    """A turn, and the key of its conversation."""

    turn: TurnRow
    key: str


class UsageSums(Turns):
    """Sums over the turns of all conversations."""

    def spent(self, by: Grouping, since_ms: int, split: Grouping | None = None) -> list[SpentRow]:
        """The sums of the turns since then, in no order. ``split``: a second grouping."""
        return [
            SpentRow(
                name=str(name or ""),
                part=str(part or ""),
                turns=turns,
                resumed=resumed,
                usage=Usage(*tokens),
                cost_usd=cost,
                cost_estimated=bool(estimated),
                saved_usd=saved,
                predicted_usd=predicted,
                predicted_cost_usd=real,
            )
            for name, part, turns, resumed, *tokens, cost, estimated, saved, predicted, real in self._db.all(
                _SQL.usage, grouped=by, parted=split or "", since_ms=since_ms, quarter_ms=QUARTER_MS
            )
        ]

    def unpaid(self, since_ms: int, notice: str, limit: int) -> list[UnpaidRow]:
        """The newest turns that continued a session and cost more than they saved, or were given a notice
        with these words."""
        rows = self._db.all(_SQL.unpaid, since_ms=since_ms, notice=f"%{notice}%", count=limit)
        return [UnpaidRow(turn_of(row[:-1]), row[-1]) for row in rows]
