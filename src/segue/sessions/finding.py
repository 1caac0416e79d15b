"""Which session is meant: by its id, or by the beginning of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from segue.agents.reader import Stored
from segue.core.errors import Misuse
from segue.sessions.listing import Listed, in_directory, listed
from segue.sessions.places import Place

LEAST = 4
"""So many characters of an id are needed."""


def find(places: Sequence[Place], name: str) -> Listed:
    """The one session whose id begins so; ``AGENT:`` in front tells agents apart. Else ``Misuse``."""
    agent, colon, rest = name.partition(":")
    wanted, begin = (agent, rest) if colon else (None, name)
    begin = begin.strip().lower()
    if len(begin) < LEAST:
        raise Misuse(f'"{name}" is too short for a session\'s id; give {LEAST} characters or more of it')
    here = [place for place in places if wanted in (None, place.agent)]
    found = [(place, stored) for place in here for stored in _beginning(place, begin)]
    whole = [each for each in found if each[1].id.lower() == begin]
    found = whole or found
    if not found:
        raise Misuse(f'there is no session "{name}"; segue sessions ls --all shows those there are')
    if len({(place.agent, stored.id) for place, stored in found}) > 1:
        names = ", ".join(sorted({f"{place.agent}:{stored.id}" for place, stored in found})[:5])
        raise Misuse(f'several sessions begin with "{name}": {names}')
    place, stored = max(found, key=lambda each: each[1].changed_ns)
    return Listed(place, stored, place.reader.brief(stored))


def newest(places: Iterable[Place], here: Path, memory: Path | None = None) -> Listed:
    """The session of a directory that was used last, as the CLIs' own ``--continue`` would take it."""
    for each in in_directory(listed(places, memory), here):
        if not each.brief.empty:
            return each
    raise Misuse(f"no agent has a session in {here}; segue sessions ls --all shows those elsewhere")


def _beginning(place: Place, begin: str) -> list[Stored]:
    return [stored for stored in place.reader.stored(place.home) if stored.id.lower().startswith(begin)]
