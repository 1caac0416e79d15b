"""One writer: a row per conversation and per native session, taken by compare-and-swap on its token.

The caller, who knows processes, judges whether a holder is dead; ages are measured by the database's clock
alone. If several processes try to take a lease at the same moment, on any host, exactly one gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from segue.core.model import Owner
from segue.store.database import Queries, Row, Section, from_json, to_json
from segue.store.records import Claim, LeaseRow
from segue.system import clock

RENEW_S = 5
"""How often its owner renews it."""
DEAD_S = 20
"""Without a renewal for this long, the owner counts as dead."""

Verdict = Literal["alive", "dead", "orphan"]
Judge = Callable[[LeaseRow], Verdict]
"""``orphan``: the owner is dead, but the process group that wrote for it lives."""
_SQL = Queries("leases")
_TRIES = 100


class Taken(msgspec.Struct, frozen=True):
    """The lease is ours. ``previous``: the dead holder it was taken from, whose process can be adopted."""

    claim: Claim
    previous: LeaseRow | None = None


class Busy(msgspec.Struct, frozen=True):
    """A live process holds the lease."""

    holder: LeaseRow


class Leases(Section):
    """The rows of all leases."""

    def take_lease(self, name: str, owner: Owner, judge: Judge) -> Taken | Busy:
        """Take the lease if it is free, or if ``judge`` says that its owner is dead."""
        held = None
        for _ in range(_TRIES):
            held = self.lease(name)
            if held is not None and judge(held) == "alive":
                return Busy(held)
            claim = self._swap(name, owner, held)
            if claim is not None:
                return Taken(claim, held)
        assert held is not None
        return Busy(held)

    def lease(self, name: str) -> LeaseRow | None:
        """The current holder."""
        row = self._db.one(_SQL.find, name=name)
        return None if row is None else _lease_of(row)

    def clock_ms(self) -> int:
        """The time of the database's clock, by which ages are measured."""
        row = self._db.one(_SQL.now)
        return int(row[0]) if row is not None else 0

    def renew_lease(self, claim: Claim) -> bool:
        """Renew it. False: it is not ours any more. It cannot be taken before the transaction ends."""
        return self._did(_SQL.renew, claim)

    def note_group(self, claim: Claim, group: str | None) -> bool:
        """Record the run directory of the attempt that writes under this lease. It survives a takeover."""
        return self._did(_SQL.note_group, claim, process_group=group)

    def release_lease(self, claim: Claim) -> bool:
        """Release it. False: it was not ours any more."""
        return self._did(_SQL.release, claim)

    def _did(self, sql: str, claim: Claim, **values: object) -> bool:
        """Whether the lease was ours, so that the statement did something."""
        (rows,) = self._db.together((sql, {**msgspec.structs.asdict(claim), **values}))
        return bool(rows)

    def _swap(self, name: str, owner: Owner, held: LeaseRow | None) -> Claim | None:
        """Take the lease from ``held``. None: another process was faster."""
        mine: dict[str, Any] = {"name": name, "token": clock.random_hex(16), "owner": to_json(owner)}
        if held is None:
            taking = (_SQL.take, mine)
        else:
            taking = (_SQL.take_over, {**mine, "seen_token": held.token, "seen_ms": held.renewed_ms})
        *_, rows = self._db.together((_SQL.next_generation, {}), taking, (_SQL.find, {"name": name}))
        now = _lease_of(rows[0]) if rows else None
        return now.claim if now is not None and now.token == mine["token"] else None

    def _drop_lease(self, name: str) -> None:
        """Delete the lease of a dead process without taking it over."""
        self._db.run(_SQL.drop, name=name)


def waiting(run: str) -> str:
    """The name of the lease by which a run shows that it waits."""
    return f"waiting:{run}"


def _lease_of(row: Row) -> LeaseRow:
    name, token, generation, owner, group, taken_ms, renewed_ms, silent_ms = row
    return LeaseRow(
        name=name,
        token=token,
        generation=generation,
        owner=from_json(owner, Owner) or Owner(host="", pid=0),
        group=group,
        taken_ms=taken_ms,
        renewed_ms=renewed_ms,
        silent_ms=silent_ms,
    )
