"""Checks a session for what would make a resume fail, go wrong or cost too much.

Each finding says what it means and what to do. ``error``: a resume would fail, or would send broken data to
the model. ``warning``: it works, but costs more, or will not work for long. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from segue.core.transcript import IMAGE_BYTES, Entry
from segue.core.turn import Clause
from segue.core.verdicts import Said, listed, say
from segue.sessions.session_facts import Facts

Level = Literal["ok", "warning", "error"]
DAY_MS = 24 * 3_600_000
SOON_DAYS = 7
FULL = 0.80


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    check: str
    level: Level
    means: str = ""
    do: str = ""
    where: tuple[str, ...] = ()
    """The ids of some of the affected entries."""
    means_clauses: tuple[Clause, ...] = ()
    """``means`` as data; empty if it is told in somebody else's words."""
    do_clauses: tuple[Clause, ...] = ()


class Seen:
    """What was found in the entries of a session."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        self.empty: list[str] = []
        self.images: list[str] = []
        self.broken: list[str] = []
        self.open: dict[str, str] = {}
        self.answered: set[str] = set()
        self.stray: list[str] = []
        self._known: set[str] = set()

    def look(self, entries: Iterable[Entry]) -> Seen:
        for entry in entries:
            self._look(entry)
        return self

    def _look(self, entry: Entry) -> None:
        if entry.kind == "damaged":
            self.damaged.append(entry.id)
        elif entry.kind == "call" and entry.call:
            if entry.call not in self.answered:
                self.open.setdefault(entry.call, entry.id)
        elif entry.kind == "result" and entry.call:
            if self.open.pop(entry.call, None) is None and entry.call not in self.answered:
                self.stray.append(entry.id)
            self.answered.add(entry.call)
        elif entry.kind == "assistant" and not (entry.text.strip() or entry.images or entry.side):
            self.empty.append(entry.id)
        if any(size > IMAGE_BYTES for size in entry.images):
            self.images.append(entry.id)
        if entry.native and not entry.again:
            self._link(entry)

    def _link(self, entry: Entry) -> None:
        """Note the entry; the chain is broken if its parent is missing."""
        if entry.native in self._known:
            return
        if entry.parent is not None and entry.parent not in self._known and not entry.side:
            self.broken.append(entry.id)
        self._known.add(entry.native)


def check(facts: Facts, seen: Seen) -> list[Finding]:
    """All checks, most important first, including those that passed."""
    return [
        _parsable(seen, facts),
        _chain(seen, facts),
        _calls(seen, facts),
        _empty(seen, facts),
        _images(seen, facts),
        _directory(facts),
        _size(facts),
        _context(facts),
        _expiry(facts),
        _grown(facts),
        _version(facts),
    ]


def _fine(name: str) -> Finding:
    return Finding(check=name, level="ok")


def _finding(name: str, level: Level, means: Said, do: Said, where: Sequence[str] = ()) -> Finding:
    return Finding(
        check=name,
        level=level,
        means=means.text,
        do=do.text,
        where=tuple(where[:5]),
        means_clauses=means.clauses,
        do_clauses=do.clauses,
    )


def _repair(facts: Facts) -> Said:
    command = f"segue sessions repair {facts.name}"
    return say(f"write a repaired copy with {command}", "session.repair", command=command)


def _parsable(seen: Seen, facts: Facts) -> Finding:
    trouble = facts.brief.trouble
    if facts.brief.empty:
        command = "segue sessions prune --all-sessions"
        do = f"there is nothing to continue; {command} lists it with the others that can be deleted"
        means = say("it has no messages", "session.empty")
        return _finding("parsable", "error", means, say(do, "session.prune", command=command))
    if trouble and not seen.damaged:
        return _finding("parsable", "error", Said(trouble, facts.brief.trouble_clauses), _repair(facts))
    if not seen.damaged:
        return _fine("parsable")
    count = len(seen.damaged)
    then = "most agents skip unreadable records, some refuse the session"
    means = say(f"{_count(count, 'record')} cannot be read: {then}", "session.damaged", count=count)
    return _finding("parsable", "error", means, _repair(facts), seen.damaged)


def _chain(seen: Seen, facts: Facts) -> Finding:
    if not seen.broken:
        return _fine("chain")
    count = len(seen.broken)
    text = f"{_count(count, 'link')} to a missing entry: some versions ignore everything before it"
    return _finding("chain", "error", say(text, "session.chain", count=count), _repair(facts), seen.broken)


def _calls(seen: Seen, facts: Facts) -> Finding:
    unmatched = [*seen.open.values(), *seen.stray]
    if not unmatched:
        return _fine("tool calls")
    calls, results = len(seen.open), len(seen.stray)
    parts = []
    if calls:
        text = f"{_count(calls, 'tool call')} without a result"
        parts.append(say(text, "session.open_calls", count=calls))
    if results:
        text = f"{_count(results, 'result')} without a call"
        parts.append(say(text, "session.stray_results", count=results))
    refused = say(": providers refuse such a history, or the agent changes it", "session.calls_refused")
    return _finding("tool calls", "error", listed(parts, " and ") + refused, _repair(facts), unmatched)


def _empty(seen: Seen, facts: Facts) -> Finding:
    if not seen.empty:
        return _fine("empty answers")
    count = len(seen.empty)
    text = f"{_count(count, 'answer')} without content: some providers refuse the history"
    means = say(text, "session.empty_answers", count=count)
    return _finding("empty answers", "error", means, _repair(facts), seen.empty)


def _images(seen: Seen, facts: Facts) -> Finding:
    if not seen.images:
        return _fine("images")
    count = len(seen.images)
    text = f"{_count(count, 'image')} over {IMAGE_BYTES >> 20} MB: every request is refused"
    means = say(text, "session.images", count=count, max_bytes=IMAGE_BYTES)
    return _finding("images", "error", means, _repair(facts), seen.images)


def _directory(facts: Facts) -> Finding:
    command = f"segue sessions continue {facts.name} --cwd D"
    if facts.directory_there:
        return _fine("directory")
    if facts.brief.cwd is None:
        means = say("it does not say which directory it was started in", "session.no_directory")
        do = say(f"name a directory: {command}", "session.name_directory", command=command)
        return _finding("directory", "warning", means, do)
    text = f"{facts.brief.cwd}, where it was started, no longer exists"
    means = say(text, "session.directory_gone", there=facts.brief.cwd)
    if facts.anywhere:
        text = f"continue it in another directory: {command}"
        return _finding("directory", "warning", means, say(text, "session.elsewhere", command=command))
    text = f"create the directory again, or continue as text: {command}"
    means += say(f", and {facts.label} resumes it only there", "session.only_there", agent=facts.label)
    return _finding("directory", "error", means, say(text, "session.as_text", command=command))


def _size(facts: Facts) -> Finding:
    size, limit, name = facts.size, facts.max_bytes, facts.name
    if size <= limit:
        return _fine("size")
    over = f"{size / (1 << 20):,.0f} MB, over the limit of {limit / (1 << 20):,.0f} MB"
    text = f"{over}: a resume takes ten times that in memory"
    do = (
        f"segue sessions repair {name} --trim drops tool output and images and keeps the dialogue;"
        f" repair {name} --since EVENT begins at a later point;"
        " or continue with a recap: segue run KEY --fresh-session"
    )
    means = say(text, "session.size", bytes=size, max_bytes=limit)
    return _finding("size", "error", means, say(do, "session.smaller", name=name))


def _context(facts: Facts) -> Finding:
    share, agent = facts.load.share, facts.label
    if share is None or (share < FULL and not facts.load.compacts):
        return _fine("context")
    means = say(f"{share:.0%} of the window would be full", "session.context", share=share)
    if facts.load.compacts:
        then = f"; {agent} compacts at once: what was said becomes a summary"
        means += say(then, "session.compacts", agent=agent)
    else:
        means += say(f"; {agent} may refuse it", "session.may_refuse", agent=agent)
    command = f"segue sessions repair {facts.name} --trim"
    do = say(f"{command}, or start a new session with what matters", "session.trim", command=command)
    return _finding("context", "warning", means, do)


def _expiry(facts: Facts) -> Finding:
    if facts.expires_ms is None or facts.kept or facts.expires_ms - facts.now_ms > SOON_DAYS * DAY_MS:
        return _fine("expiry")
    agent, days = facts.label, max(0, (facts.expires_ms - facts.now_ms) // DAY_MS)
    if days == 0:
        text = f"{agent} deletes it at its next start, and Segue has no copy"
        means = say(text, "session.expires_now", agent=agent)
    else:
        text = f"{agent} deletes it in {_count(days, 'day')}, and Segue has no copy"
        means = say(text, "session.expires", agent=agent, count=days)
    command = f"segue sessions continue {facts.name}"
    do = say(f"continue it, which also keeps a copy: {command}", "session.keep", command=command)
    return _finding("expiry", "warning", means, do)


def _grown(facts: Facts) -> Finding:
    key = facts.conversation
    if facts.left_at is None or facts.end is None or facts.left_at == facts.end:
        return _fine("grown")
    text = f"it was continued outside of {key}: the next turn of {key} would branch before that"
    command = f"segue run {key} TEXT --adopt {facts.name}"
    means = say(text, "session.grown", conversation=str(key))
    return _finding(
        "grown", "warning", means, say(f"include those messages: {command}", "session.adopt", command=command)
    )


def _version(facts: Facts) -> Finding:
    agent, written = facts.label, facts.brief.version
    if not facts.tried or written is None or _between(written, facts.tried):
        return _fine("version")
    text = f"written by {agent} {written}, a version that Segue was not tested with"
    means = say(text, "session.version", agent=agent, version=written)
    do = say("nothing: every resume is verified", "session.verified")
    return _finding("version", "warning", means, do)


def _between(version: str, tried: tuple[str, ...]) -> bool:
    """Whether it is between the oldest and the newest version that Segue was tested with."""
    numbers = sorted(map(_numbers, tried))
    return numbers[0] <= _numbers(version) <= numbers[-1]


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("-")[0].split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
