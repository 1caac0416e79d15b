"""Deletes sessions that nobody needs any more, each under its lease, and homes of runners that are gone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.agents.reader import Stored, entries_of
from segue.core.errors import SegueError
from segue.sessions.listing import Listed, in_directory
from segue.sessions.pruning import Candidate, Rules, Verdict, is_named, judge
from segue.sessions.shelf import Shelf
from segue.store import leases
from segue.store.store import Store
from segue.turns.grip import judge as judge_lease
from segue.turns.idle import Idle, claim, remove_home
from segue.turns.lease import Busy, alone, native_lease

QUIET_MS = 120_000
"""A session that was written to within this time may be running."""


class Prunable(msgspec.Struct, frozen=True):
    """A session that the rules speak of, and what they say."""

    session: Listed
    verdict: Verdict


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    deleted: tuple[Prunable, ...]
    kept: tuple[tuple[Prunable, str], ...]
    """What turned out to be needed when it was looked at once more, and why."""
    failed: tuple[tuple[Prunable, str], ...]
    homes: tuple[Path, ...]
    freed: int


def prunable(shelf: Shelf, store: Store, rules: Rules, project: Path | None) -> list[Prunable]:
    """What the rules speak of, of all directories or of one."""
    now = time.time_ns() // 1_000_000
    every = shelf.all()
    here = {id(each) for each in (every if project is None else in_directory(every, project))}
    by_key = {(each.place.agent, each.id): each for each in reversed(every)}
    under_way = store.under_way()
    candidates = [
        Candidate(
            agent=each.place.agent,
            id=each.id,
            size=each.stored.size,
            last_used_ms=max(each.last_used_ms, each.stored.changed_ns // 1_000_000),
            brief=each.brief,
            known=shelf.known(each.place.agent, each.id),
            running=key in under_way or _runs(shelf, store, each, now),
            here=id(each) in here,
        )
        for key, each in by_key.items()
    ]
    verdicts = judge(candidates, rules, now)
    return [Prunable(by_key[each.candidate.agent, each.candidate.id], each) for each in verdicts]


def wanted(shelf: Shelf, store: Store, chosen: Iterable[Prunable]) -> list[str]:
    """What no home may be deleted with: where pins point to, and every session and copy that is to stay."""
    going = {each.session.stored.file for each in chosen}
    found = store.pinned_homes()
    for place in shelf.places:
        for stored in place.reader.stored(place.home):
            if not going.intersection(map(str, (stored.path, *stored.path.parents))):
                found.append(stored.file)
    return found


async def prune(
    shelf: Shelf, store: Store, chosen: Sequence[Prunable], homes: Sequence[Idle], locks: Path
) -> Pruned:
    """Delete them one by one; what cannot be deleted is told, and stops nobody.

    The homes are locked before and until they go: no runner takes one up meanwhile.
    """
    deleted, kept, failed = [], [], []
    with ExitStack() as held:
        claimed = [idle.home for idle in homes if claim(idle, held)]
        for each in chosen:
            try:
                async with alone(store, _lease(shelf, each.session), host=shelf.host, locks=locks):
                    why = _delete(shelf, store, each.session)
            except (OSError, SegueError, Busy) as error:
                failed.append((each, str(error)))
            else:
                if why is None:
                    deleted.append(each)
                else:
                    kept.append((each, why))
        gone = tuple(home for home in claimed if remove_home(shelf, store, home))
    freed = sum(each.session.stored.size for each in deleted)
    return Pruned(deleted=tuple(deleted), kept=tuple(kept), failed=tuple(failed), homes=gone, freed=freed)


def _delete(shelf: Shelf, store: Store, each: Listed) -> str | None:
    """Not if it was gone on with since it was looked at; nor if it is needed after all: why, then."""
    place = each.place
    seen = place.reader.find(place.home, each.id)
    if seen is None:
        return None
    why = _needed(store, each, seen)
    if why is not None:
        return why
    now = place.reader.find(place.home, each.id)  # to read all of it has taken its time
    if now is None:
        return None
    if (now.path, now.changed_ns) != (each.stored.path, each.stored.changed_ns):
        raise SegueError("it was used just now")
    sessions = registry.get(place.agent, shelf.config).sessions
    if sessions is None:
        raise SegueError("its format is not known")
    sessions.remove(now)
    if os.path.lexists(now.path):
        raise SegueError(f"{now.path} could not be deleted")
    return None


def _needed(store: Store, each: Listed, seen: Stored) -> str | None:
    """By the store and by the session itself, as they are now."""
    reader, agent = each.place.reader, each.place.agent
    if is_named(reader.brief(seen), entries_of(reader, seen)):
        return "somebody gave it a name"
    if (agent, each.id) in store.under_way():
        return "running"
    key = store.pinned_by(agent, each.id)
    return f"pinned by {key}" if key is not None else None


def _lease(shelf: Shelf, each: Listed) -> str:
    return native_lease(each.place.agent, shelf.host, each.id)


def _runs(shelf: Shelf, store: Store, each: Listed, now: int) -> bool:
    if now - each.stored.changed_ns // 1_000_000 < QUIET_MS:
        return True
    row = leases.find(store, _lease(shelf, each))
    return row is not None and judge_lease(row, shelf.host) != "dead"
