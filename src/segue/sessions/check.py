"""Checks a session for what would make a resume fail, go wrong or cost too much.

Each finding says what it means and what to do. ``error``: a resume would fail, or would send broken data to
the model. ``warning``: it works, but costs more, or will not work for long. ``check`` is pure; ``facts_of``
gathers what it needs besides the session's entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent, SessionArchive, StoredSession
from segue.core.errors import SegueError
from segue.core.model import Pin
from segue.core.transcript import IMAGE_BYTES, Brief, Entry
from segue.sessions.catalog import KnownSessions, SessionCatalog, short_name
from segue.sessions.counts import Load, context_load
from segue.sessions.listing import Listed
from segue.system import clock

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


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a session besides its entries."""

    id: str
    name: str
    """The shortest beginning of the id that no other session shares."""
    agent: str
    label: str
    brief: Brief
    size: int
    max_bytes: int
    directory_there: bool
    anywhere: bool
    """The CLI resumes its sessions in any directory."""
    load: Load
    expires_ms: int | None
    kept: bool
    """Segue has a copy of it."""
    end: str | None
    left_at: str | None
    """Where Segue left it, if a conversation has it pinned."""
    conversation: str | None
    tried: tuple[str, ...]
    """The versions of the CLI that Segue was tested with; empty: any version is fine."""
    now_ms: int


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


def _repair(facts: Facts) -> str:
    return f"write a repaired copy with segue sessions repair {facts.name}"


def _finding(name: str, places: list[str], means: str, do: str, level: Level = "error") -> Finding:
    if not places:
        return Finding(check=name, level="ok")
    return Finding(check=name, level=level, means=means, do=do, where=tuple(places[:5]))


def _parsable(seen: Seen, facts: Facts) -> Finding:
    if facts.brief.empty:
        do = (
            "there is nothing to continue; segue sessions prune --all-sessions lists it with the others that"
            " can be deleted"
        )
        return Finding(check="parsable", level="error", means="it has no messages", do=do)
    if facts.brief.trouble and not seen.damaged:
        return Finding(check="parsable", level="error", means=facts.brief.trouble, do=_repair(facts))
    lines = _count(len(seen.damaged), "record")
    return _finding(
        "parsable",
        seen.damaged,
        f"{lines} cannot be read: most agents skip unreadable records, some refuse the session",
        _repair(facts),
    )


def _chain(seen: Seen, facts: Facts) -> Finding:
    return _finding(
        "chain",
        seen.broken,
        f"{_count(len(seen.broken), 'link')} to a missing entry: some versions ignore everything before it",
        _repair(facts),
    )


def _calls(seen: Seen, facts: Facts) -> Finding:
    unmatched = [*seen.open.values(), *seen.stray]
    parts = []
    if seen.open:
        parts.append(f"{_count(len(seen.open), 'tool call')} without a result")
    if seen.stray:
        parts.append(f"{_count(len(seen.stray), 'result')} without a call")
    means = f"{' and '.join(parts)}: providers refuse such a history, or the agent changes it"
    return _finding("tool calls", unmatched, means, _repair(facts))


def _empty(seen: Seen, facts: Facts) -> Finding:
    return _finding(
        "empty answers",
        seen.empty,
        f"{_count(len(seen.empty), 'answer')} without content: some providers refuse the history",
        _repair(facts),
    )


def _images(seen: Seen, facts: Facts) -> Finding:
    return _finding(
        "images",
        seen.images,
        f"{_count(len(seen.images), 'image')} over {IMAGE_BYTES >> 20} MB: every request is refused",
        _repair(facts),
    )


def _directory(facts: Facts) -> Finding:
    if facts.directory_there:
        return Finding(check="directory", level="ok")
    if facts.brief.cwd is None:
        means = "it does not say which directory it was started in"
        do = f"name a directory: segue sessions continue {facts.name} --cwd D"
        return Finding(check="directory", level="warning", means=means, do=do)
    means = f"{facts.brief.cwd}, where it was started, no longer exists"
    if facts.anywhere:
        do = f"continue it in another directory: segue sessions continue {facts.name} --cwd D"
        return Finding(check="directory", level="warning", means=means, do=do)
    do = f"create the directory again, or continue as text: segue sessions continue {facts.name} --cwd D"
    means = f"{means}, and {facts.label} resumes it only there"
    return Finding(check="directory", level="error", means=means, do=do)


def _size(facts: Facts) -> Finding:
    if facts.size <= facts.max_bytes:
        return Finding(check="size", level="ok")
    mb, limit = facts.size / (1 << 20), facts.max_bytes / (1 << 20)
    means = f"{mb:,.0f} MB, over the limit of {limit:,.0f} MB: a resume takes ten times that in memory"
    name = facts.name
    do = (
        f"segue sessions repair {name} --trim drops tool output and images and keeps the dialogue;"
        f" repair {name} --since EVENT begins at a later point;"
        " or continue with a recap: segue run KEY --fresh-session"
    )
    return Finding(check="size", level="error", means=means, do=do)


def _context(facts: Facts) -> Finding:
    share = facts.load.share
    if share is None or (share < FULL and not facts.load.compacts):
        return Finding(check="context", level="ok")
    then = "compacts at once: what was said becomes a summary" if facts.load.compacts else "may refuse it"
    do = f"segue sessions repair {facts.name} --trim, or start a new session with what matters"
    means = f"{share:.0%} of the window would be full; {facts.label} {then}"
    return Finding(check="context", level="warning", means=means, do=do)


def _expiry(facts: Facts) -> Finding:
    if facts.expires_ms is None or facts.kept or facts.expires_ms - facts.now_ms > SOON_DAYS * DAY_MS:
        return Finding(check="expiry", level="ok")
    days = max(0, (facts.expires_ms - facts.now_ms) // DAY_MS)
    when = "at its next start" if days == 0 else f"in {_count(days, 'day')}"
    do = f"continue it, which also keeps a copy: segue sessions continue {facts.name}"
    means = f"{facts.label} deletes it {when}, and Segue has no copy"
    return Finding(check="expiry", level="warning", means=means, do=do)


def _grown(facts: Facts) -> Finding:
    if facts.left_at is None or facts.end is None or facts.left_at == facts.end:
        return Finding(check="grown", level="ok")
    key = facts.conversation
    means = f"it was continued outside of {key}: the next turn of {key} would branch before that"
    do = f"include those messages: segue run {key} TEXT --adopt {facts.name}"
    return Finding(check="grown", level="warning", means=means, do=do)


def _version(facts: Facts) -> Finding:
    written = facts.brief.version
    if not facts.tried or written is None or _between(written, facts.tried):
        return Finding(check="version", level="ok")
    means = f"written by {facts.label} {written}, a version that Segue was not tested with"
    return Finding(check="version", level="warning", means=means, do="nothing: every resume is verified")


def _between(version: str, tried: tuple[str, ...]) -> bool:
    """Whether it is between the oldest and the newest version that Segue was tested with."""
    numbers = sorted(map(_numbers, tried))
    return numbers[0] <= _numbers(version) <= numbers[-1]


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("-")[0].split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def facts_of(catalog: SessionCatalog, found: Listed) -> Facts:
    place, brief = found.place, found.brief
    agent = registry.get(place.agent, catalog.config)
    known = catalog.known(place.agent, found.id)
    pin = _pin(catalog, known)
    cwd = Path(brief.cwd) if brief.cwd else None
    resumable = place.format.find(place.home, found.id, cwd or catalog.here) if pin is not None else None
    window = known.row.context.window if known.row is not None else None
    return Facts(
        id=found.id,
        name=short_name(catalog.places, found.id),
        agent=place.agent,
        label=agent.facts.label,
        brief=brief,
        size=found.stored.size,
        max_bytes=catalog.config.continuity.max_session_mb * 1024 * 1024,
        directory_there=cwd is not None and cwd.is_dir(),
        anywhere=_anywhere(catalog, agent),
        load=context_load(brief, place.archive.window_rules, window),
        expires_ms=place.archive.expires_ms(found.stored, brief),
        kept=catalog.is_kept(place.agent, found.id),
        end=place.format.end(resumable) if resumable is not None else None,
        left_at=pin.end if pin is not None else None,
        conversation=known.conversation,
        tried=place.archive.window_rules.tried,
        now_ms=clock.now_ms(),
    )


def torn(reader: SessionArchive, stored: StoredSession) -> tuple[Entry, ...]:
    """The last record, if it is incomplete. Reading a session leaves it out: more of it may follow."""
    last = next(iter(reader.back(stored)), None)
    damaged = last is not None and bool(last.entries) and last.entries[0].kind == "damaged"
    if last is None or not damaged or not stored.appends:
        return ()
    whole = any(record.start == last.start for record in reader.read(stored, last.start))
    return () if whole else tuple(last.entries)


def _anywhere(catalog: SessionCatalog, agent: Agent) -> bool:
    """Whether the installed CLI resumes its sessions in any directory; True if it is not installed."""
    command = catalog.config.commands.get(agent.facts.name)
    try:
        runtime = probe.probe(agent, env=catalog.env, configured=command, cache=catalog.home.probes)
    except SegueError:
        return True
    return runtime.capabilities.cwd_scope == "any"


def _pin(catalog: SessionCatalog, known: KnownSessions) -> Pin | None:
    if not known.pinned or known.row is None or known.conversation is None:
        return None
    conversation = catalog.store.conversation(known.conversation)
    pins = catalog.store.pins(conversation.id) if conversation is not None else []
    return next((pin for pin in pins if pin.session == known.row.id), None)
