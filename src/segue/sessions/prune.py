"""Prunes sessions: finds those that are no longer needed and deletes them, each under its lease.

By default, only sessions that Segue made and no conversation would continue. Never a session that is pinned,
running or named by the user. Homes of runners that no longer exist are deleted, too.
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
from segue.core.verdicts import Said, listed, say
from segue.sessions.catalog import KnownSessions, SessionCatalog
from segue.sessions.idle_homes import IdleHome, claim_home, remove_home
from segue.sessions.listing import Listed, in_directory
from segue.store.leases import LeaseBusy, alone, native_lease
from segue.store.leases import judge as judge_lease
from segue.store.store import Store
from segue.system import clock

DAY_MS = 24 * 3_600_000
QUIET_MS = 120_000
"""A session that was written to this recently may be running."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A session, with everything that decides whether it can be deleted."""

    agent: str
    id: str
    size: int
    last_used_ms: int
    brief: Brief
    known: KnownSessions
    running: bool = False
    here: bool = True
    """It belongs to the project whose sessions are pruned."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to delete. ``days`` None: of any age. ``larger``: in bytes."""

    days: float | None = 7
    larger: int | None = None
    agents: tuple[str, ...] = ()
    keep_last: int = 0
    """How many sessions of each conversation stay, the newest ones."""
    all_sessions: bool = False
    """Also sessions that Segue did not make."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    candidate: Candidate
    why: Said
    """Why it can be deleted, or why it stays."""
    goes: bool


def judge(candidates: Sequence[Candidate], rules: Rules, now_ms: int) -> list[Verdict]:
    """A verdict for each session that the rules apply to, most recently used first."""
    kept = _newest(candidates, rules.keep_last)
    ordered = sorted(candidates, key=lambda each: each.last_used_ms, reverse=True)
    verdicts = []
    for each in ordered:
        if not _applies(each, rules):
            continue
        stays = _stays(each, rules, now_ms) or ("one of the newest" if _key(each) in kept else "")
        why = Said(stays) if stays else _why_it_goes(each, now_ms)
        verdicts.append(Verdict(candidate=each, why=why, goes=not stays))
    return verdicts


def is_named(brief: Brief, entries: Iterable[Entry]) -> bool:
    """Whether the user gave the session a name, anywhere in it. A title by the agent does not count."""
    if brief.title_by == "user":
        return True
    by_agent = (brief.title or "").strip() if brief.title_by == "agent" else ""
    titles = (entry.text.strip() for entry in entries if entry.kind == "state" and entry.label == "title")
    return any(title and title != by_agent for title in titles)


def _applies(each: Candidate, rules: Rules) -> bool:
    wanted = each.here and (not rules.agents or each.agent in rules.agents)
    return wanted and (each.known.ours or rules.all_sessions)


def _stays(each: Candidate, rules: Rules, now_ms: int) -> str:
    """Why a session must stay; empty if it can be deleted."""
    if each.known.pinned:
        return f"pinned by {each.known.conversation}"
    if each.running:
        return "running"
    if each.brief.title_by == "user":
        return "named by the user"
    if rules.days is not None and now_ms - each.last_used_ms < rules.days * DAY_MS:
        return f"used {count_in_words(_days(each, now_ms), 'day')} ago"
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


def _days(each: Candidate, now_ms: int) -> int:
    return max(0, now_ms - each.last_used_ms) // DAY_MS


def _why_it_goes(each: Candidate, now_ms: int) -> Said:
    days, key = _days(each, now_ms), each.known.conversation
    unused = say(f"not used for {count_in_words(days, 'day')}", "prune.unused", count=days)
    if not each.known.ours:
        whose = say("not made by Segue", "prune.foreign")
    elif key:
        whose = say(f"belonged to {key}", "prune.belonged", conversation=key)
    else:
        whose = say("in no conversation", "prune.nobodys")
    return listed((unused, whose), ", ")


class Prunable(msgspec.Struct, frozen=True):
    """A session that the rules apply to, and the verdict."""

    session: Listed
    verdict: Verdict


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    deleted: tuple[Prunable, ...]
    kept: tuple[tuple[Prunable, str], ...]
    """Sessions that turned out to be needed when they were examined a second time, and why."""
    failed: tuple[tuple[Prunable, str], ...]
    homes: tuple[Path, ...]
    freed: int


def prunable(catalog: SessionCatalog, store: Store, rules: Rules, project: Path | None) -> list[Prunable]:
    """The sessions that the rules apply to, of all directories or of one."""
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
    """Paths that must not be deleted with a home: where pins point, and every session and copy that stays."""
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
    """Delete the sessions one by one. Those that cannot be deleted are reported, and do not stop the others.

    The homes stay locked until they are deleted, so that no runner starts to use one meanwhile.
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
    """Delete a session, unless it is needed after all; returns the reason then.

    Raises ``SegueError`` if it was used since it was examined.
    """
    place = each.place
    seen = place.find(each.id)
    if seen is None:
        return None
    why = _needed(store, each, seen)
    if why is not None:
        return why
    now = place.find(each.id)  # reading all of it took time
    if now is None:
        return None
    if (now.path, now.changed_ns) != (each.stored.path, each.stored.changed_ns):
        raise SegueError("it was used just now")
    place.archive.remove(now)
    if os.path.lexists(now.path):
        raise SegueError(f"{now.path} could not be deleted")
    return None


def _needed(store: Store, each: Listed, seen: StoredSession) -> str | None:
    """Why the session is needed, according to the store and to the session as it is now."""
    reader, agent = each.place.archive, each.place.agent
    if is_named(reader.brief(seen), entries_of(reader, seen)):
        return "named by the user"
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
