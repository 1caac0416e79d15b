"""Deletes sessions that nobody needs any more, each under its lease, and homes of runners that are gone."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.core.errors import SegueError
from segue.sessions.listing import Listed, in_directory
from segue.sessions.pruning import DAY_MS, Candidate, Rules, Verdict, judge
from segue.sessions.shelf import Shelf
from segue.store import leases
from segue.store.store import Store
from segue.turns.grip import judge as judge_lease
from segue.turns.lease import Busy, hold
from segue.turns.owners import this_process

QUIET_MS = 120_000
"""A session that was written to within this time may be running."""


class Prunable(msgspec.Struct, frozen=True):
    """A session that the rules speak of, and what they say."""

    session: Listed
    verdict: Verdict


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    deleted: tuple[Prunable, ...]
    failed: tuple[tuple[Prunable, str], ...]
    homes: tuple[Path, ...]
    freed: int


def prunable(shelf: Shelf, store: Store, rules: Rules, project: Path | None) -> list[Prunable]:
    """What the rules speak of, of all directories or of one."""
    now = time.time_ns() // 1_000_000
    every = shelf.all()
    here = {id(each) for each in (every if project is None else in_directory(every, project))}
    by_key = {(each.place.agent, each.id): each for each in reversed(every)}
    candidates = [
        Candidate(
            agent=each.place.agent,
            id=each.id,
            size=each.stored.size,
            last_used_ms=each.last_used_ms,
            brief=each.brief,
            known=shelf.known(each.place.agent, each.id),
            running=_runs(shelf, store, each, now),
            here=id(each) in here,
        )
        for each in by_key.values()
    ]
    verdicts = judge(candidates, rules, now)
    return [Prunable(by_key[each.candidate.agent, each.candidate.id], each) for each in verdicts]


def idle_homes(runners: Path, days: float, keep: Iterable[Path]) -> list[Path]:
    """Private homes whose runner is gone, without a session that is wanted, and not used for so long."""
    wanted = [str(path) for path in keep]
    found = []
    for home in sorted(runners.glob("*/*")):
        if not home.is_dir() or any(path.startswith(f"{home}/") for path in wanted):
            continue
        if time.time() * 1000 - _used_ms(home) >= days * DAY_MS and _free(home):
            found.append(home)
    return found


async def prune(
    shelf: Shelf, store: Store, chosen: Sequence[Prunable], homes: Sequence[Path], locks: Path
) -> Pruned:
    """Delete them one by one; what cannot be deleted is told, and stops nobody."""
    deleted, failed, freed = [], [], 0
    for each in chosen:
        try:
            async with hold(
                store,
                _lease(shelf, each.session),
                owner=this_process(shelf.host),
                locks=locks,
                until=time.monotonic(),
                on_wait=lambda _: None,
                given_up=lambda: False,
                on_loss=lambda: None,
                adopts=False,
            ):
                _delete(shelf, each.session)
        except (OSError, SegueError, Busy) as error:
            failed.append((each, str(error)))
        else:
            deleted.append(each)
            freed += each.session.stored.size
    gone = tuple(home for home in homes if _remove_home(home))
    return Pruned(deleted=tuple(deleted), failed=tuple(failed), homes=gone, freed=freed)


def _delete(shelf: Shelf, each: Listed) -> None:
    """Not if it was gone on with since it was looked at."""
    now = each.place.reader.find(each.place.home, each.id)
    if now is None:
        return
    if now.changed_ns != each.stored.changed_ns:
        raise SegueError("it was used just now")
    sessions = registry.get(each.place.agent, shelf.config).sessions
    if sessions is None:
        raise SegueError("its format is not known")
    sessions.remove(now)


def _lease(shelf: Shelf, each: Listed) -> str:
    return f"session:{each.place.agent}:{shelf.host}:{each.id}"


def _runs(shelf: Shelf, store: Store, each: Listed, now: int) -> bool:
    if now - each.stored.changed_ns // 1_000_000 < QUIET_MS:
        return True
    row = leases.find(store, _lease(shelf, each))
    return row is not None and judge_lease(row, now, shelf.host) != "dead"


def _used_ms(home: Path) -> float:
    return max((path.stat().st_mtime * 1000 for path in _files(home)), default=0.0)


def _files(home: Path) -> Iterator[Path]:
    yield home
    for folder, _, names in os.walk(home / "logs"):
        yield from (Path(folder) / name for name in names)


def _free(home: Path) -> bool:
    try:
        lock = os.open(home.with_name(f"{home.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _remove_home(home: Path) -> bool:
    """While its lock is ours. The lock's file stays: another runner may hold it open."""
    lock = os.open(home.with_name(f"{home.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(home)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
