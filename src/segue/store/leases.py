"""One writer: a row per conversation and per native session, taken by compare-and-swap on its token.

Who is dead is for the caller to judge, who knows processes. Of all that try to take a lease at the same
moment, in whatever process or host, exactly one gets it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import msgspec

from segue.store.database import Row
from segue.store.packing import pack, unpack
from segue.store.queries import Queries
from segue.store.records import LeaseRow, Owner
from segue.store.store import Store

RENEW_S = 5
"""How often its owner renews it."""
DEAD_S = 20
"""After how long without that nobody counts on the owner any more."""

Verdict = Literal["alive", "dead", "orphan"]
Judge = Callable[[LeaseRow, int], Verdict]
"""``orphan``: the owner is dead, but the process group that wrote for it lives."""

_SQL = Queries("leases")
_TRIES = 100


class Taken(msgspec.Struct, frozen=True):
    """It is ours. ``previous``: whose it was, when it was taken over, so that what runs can be adopted."""

    token: str
    previous: LeaseRow | None = None


class Busy(msgspec.Struct, frozen=True):
    """Somebody who lives has it."""

    holder: LeaseRow


def take(store: Store, name: str, owner: Owner, now_ms: int, judge: Judge) -> Taken | Busy:
    """Take the lease if it is free, or its owner is dead by ``judge(row, now_ms)``."""
    token = os.urandom(16).hex()
    mine = {"name": name, "token": token, "owner": pack(owner), "now_ms": now_ms}
    held = None
    for _ in range(_TRIES):
        if store.db.run(_SQL.take, **mine):
            return Taken(token)
        held = find(store, name)
        if held is None:
            continue
        if judge(held, now_ms) == "alive":
            return Busy(held)
        if store.db.run(_SQL.take_over, **mine, seen_token=held.token, seen_ms=held.renewed_ms):
            return Taken(token, held)
    assert held is not None
    return Busy(held)


def find(store: Store, name: str) -> LeaseRow | None:
    """Who has it now."""
    row = store.db.one(_SQL.find, name=name)
    return None if row is None else _lease_of(row)


def renew(store: Store, name: str, token: str, now_ms: int) -> bool:
    """False: it is somebody else's by now."""
    return store.db.run(_SQL.renew, name=name, token=token, now_ms=now_ms) == 1


def note_group(store: Store, name: str, token: str, group: str | None) -> bool:
    """Note, as JSON, the process group that writes under this lease. It outlives a take-over."""
    return store.db.run(_SQL.note_group, name=name, token=token, process_group=group) == 1


def release(store: Store, name: str, token: str) -> bool:
    """Give it back. False: it was not ours any more."""
    return store.db.run(_SQL.release, name=name, token=token) == 1


def _lease_of(row: Row) -> LeaseRow:
    name, token, owner, group, taken_ms, renewed_ms = row
    return LeaseRow(
        name=name,
        token=token,
        owner=unpack(owner, Owner) or Owner(host="", pid=0),
        group=group,
        taken_ms=taken_ms,
        renewed_ms=renewed_ms,
    )
