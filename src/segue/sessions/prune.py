"""Prunes sessions: which of them nobody needs any more, and deletes those, each under its lease.

By itself only what Segue made and no conversation would go on with. Never a session that is pinned, running
or named by somebody. Homes of runners that are gone are deleted with them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from segue.agents.base import StoredSession, entries_of
from segue.core.errors import SegueError
from segue.core.transcript import Brief, Entry
from segue.core.usage import count_in_words
from segue.sessions.catalog import KnownSessions, SessionCatalog
from segue.sessions.idle_homes import IdleHome, claim_home, remove_home
from segue.sessions.listing import Listed, in_directory
from segue.store.leases import LeaseBusy, alone, native_lease
from segue.store.leases import judge as judge_lease
from segue.store.store import Store
from segue.system import clock

DAY_MS = 24 * 3_600_000
QUIET_MS = 120_000
"""A session that was written to within this time may be running."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A session, with all that decides whether it may go."""

    agent: str
    id: str
    size: int
    last_used_ms: int
    brief: Brief
    known: KnownSessions
    running: bool = False
    here: bool = True
    """It belongs to the project that is pruned."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """``days`` None: whatever its age. ``larger`` in bytes."""

    days: float | None = 7
    larger: int | None = None
    agents: tuple[str, ...] = ()
    keep_last: int = 0
    """So many of each conversation stay, the newest."""
    all_sessions: bool = False
    """Also those that Segue did not make."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    candidate: Candidate
    why: str
    """Why it may go, or why it stays."""
    goes: bool


def judge(candidates: Sequence[Candidate], rules: Rules, now_ms: int) -> list[Verdict]:
    """Each session that the rules speak of, the one that was used last first."""
    kept = _newest(candidates, rules.keep_last)
    ordered = sorted(candidates, key=lambda each: each.last_used_ms, reverse=True)
    verdicts = []
    for each in ordered:
        if not _spoken_of(each, rules):
            continue
        stays = _stays(each, rules, now_ms) or ("one of the newest" if _key(each) in kept else "")
        why = stays or f"not used for {_days(each, now_ms)}, {_whose(each)}"
        verdicts.append(Verdict(candidate=each, why=why, goes=not stays))
    return verdicts


def is_named(brief: Brief, entries: Iterable[Entry]) -> bool:
    """Whether somebody gave a session a name, anywhere in it. A title that the agent is known to have made up
    is none."""
    if brief.title_by == "user":
        return True
    made_up = (brief.title or "").strip() if brief.title_by == "agent" else ""
    titles = (entry.text.strip() for entry in entries if entry.kind == "state" and entry.label == "title")
    return any(title and title != made_up for title in titles)


def _spoken_of(each: Candidate, rules: Rules) -> bool:
    wanted = each.here and (not rules.agents or each.agent in rules.agents)
    return wanted and (each.known.ours or rules.all_sessions)


def _stays(each: Candidate, rules: Rules, now_ms: int) -> str:
    """Why a session must stay, or nothing."""
    if each.known.pinned:
        return f"pinned by {each.known.conversation}"
    if each.running:
        return "running"
    if each.brief.title_by == "user":
        return "somebody gave it a name"
    if rules.days is not None and now_ms - each.last_used_ms < rules.days * DAY_MS:
        return f"used {_days(each, now_ms)} ago"
    if rules.larger is not None and each.size <= rules.larger:
        return "small"
    return ""


def _newest(candidates: Iterable[Candidate], count: int) -> set[tuple[str, str]]:
    by_conversation: dict[str, list[Candidate]] = defaultdict(list)
    for each in candidates:
        if each.known.conversation is not None:
            by_conversation[each.known.conversation].append(each)
    kept = set()
    for group in by_conversation.values():
        group.sort(key=lambda each: each.last_used_ms, reverse=True)
        kept |= {_key(each) for each in group[:count]}
    return kept


def _key(each: Candidate) -> tuple[str, str]:
    return each.agent, each.id


def _days(each: Candidate, now_ms: int) -> str:
    return count_in_words(max(0, now_ms - each.last_used_ms) // DAY_MS, "day")


def _whose(each: Candidate) -> str:
    if not each.known.ours:
        return "not made by Segue"
    return f"was of {each.known.conversation}" if each.known.conversation else "of no conversation"


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


def prunable(catalog: SessionCatalog, store: Store, rules: Rules, project: Path | None) -> list[Prunable]:
    """What the rules speak of, of all directories or of one."""
    now = clock.now_ms()
    every = catalog.all()
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
            known=catalog.known(each.place.agent, each.id),
            running=key in under_way or _runs(catalog, store, each, now),
            here=id(each) in here,
        )
        for key, each in by_key.items()
    ]
    verdicts = judge(candidates, rules, now)
    return [Prunable(by_key[each.candidate.agent, each.candidate.id], each) for each in verdicts]


def wanted(catalog: SessionCatalog, store: Store, chosen: Iterable[Prunable]) -> list[str]:
    """What no home may be deleted with: where pins point to, and every session and copy that is to stay."""
    going = {each.session.stored.file for each in chosen}
    found = store.pinned_homes()
    for place in catalog.places:
        for stored in place.archive.stored(place.home):
            if not going.intersection(map(str, (stored.path, *stored.path.parents))):
                found.append(stored.file)
    return found


async def prune(
    catalog: SessionCatalog, store: Store, chosen: Sequence[Prunable], homes: Sequence[IdleHome], locks: Path
) -> Pruned:
    """Delete them one by one; what cannot be deleted is told, and stops nobody.

    The homes are locked before and until they go: no runner takes one up meanwhile.
    """
    deleted, kept, failed = [], [], []
    with ExitStack() as held:
        claimed = [idle.home for idle in homes if claim_home(idle, held)]
        for each in chosen:
            try:
                async with alone(store, _lease(catalog, each.session), host=catalog.host, locks=locks):
                    why = _delete(catalog, store, each.session)
            except (OSError, SegueError, LeaseBusy) as error:
                failed.append((each, str(error)))
            else:
                if why is None:
                    deleted.append(each)
                else:
                    kept.append((each, why))
        gone = tuple(home for home in claimed if remove_home(catalog.places, store, home))
    freed = sum(each.session.stored.size for each in deleted)
    return Pruned(deleted=tuple(deleted), kept=tuple(kept), failed=tuple(failed), homes=gone, freed=freed)


def _delete(catalog: SessionCatalog, store: Store, each: Listed) -> str | None:
    """Not if it was gone on with since it was looked at; nor if it is needed after all: why, then."""
    place = each.place
    seen = place.find(each.id)
    if seen is None:
        return None
    why = _needed(store, each, seen)
    if why is not None:
        return why
    now = place.find(each.id)  # to read all of it has taken its time
    if now is None:
        return None
    if (now.path, now.changed_ns) != (each.stored.path, each.stored.changed_ns):
        raise SegueError("it was used just now")
    place.archive.remove(now)
    if os.path.lexists(now.path):
        raise SegueError(f"{now.path} could not be deleted")
    return None


def _needed(store: Store, each: Listed, seen: StoredSession) -> str | None:
    """By the store and by the session itself, as they are now."""
    reader, agent = each.place.archive, each.place.agent
    if is_named(reader.brief(seen), entries_of(reader, seen)):
        return "somebody gave it a name"
    if (agent, each.id) in store.under_way():
        return "running"
    key = store.pinned_by(agent, each.id)
    return f"pinned by {key}" if key is not None else None


def _lease(catalog: SessionCatalog, each: Listed) -> str:
    return native_lease(each.place.agent, catalog.host, each.id)


def _runs(catalog: SessionCatalog, store: Store, each: Listed, now: int) -> bool:
    if now - each.stored.changed_ns // 1_000_000 < QUIET_MS:
        return True
    row = store.lease(_lease(catalog, each))
    return row is not None and judge_lease(row, catalog.host) != "dead"
