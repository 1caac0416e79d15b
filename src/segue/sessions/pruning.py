"""Which sessions are not needed any more. Pure; whoever calls deletes them.

By itself only what Segue made and no conversation would go on with. Never a session that is pinned, running
or named by somebody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from segue.core.figures import counted
from segue.core.transcript import Brief, Entry
from segue.sessions.shelf import Known

DAY_MS = 24 * 3_600_000


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A session, with all that decides whether it may go."""

    agent: str
    id: str
    size: int
    last_used_ms: int
    brief: Brief
    known: Known
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
    return counted(max(0, now_ms - each.last_used_ms) // DAY_MS, "day")


def _whose(each: Candidate) -> str:
    if not each.known.ours:
        return "not made by Segue"
    return f"was of {each.known.conversation}" if each.known.conversation else "of no conversation"
