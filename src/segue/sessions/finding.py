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


def find(places: Sequence[Place], name: str, account: str | None = None) -> Listed:
    """The one session whose id begins so. ``AGENT:`` or ``AGENT/ACCOUNT:`` in front tells those apart that
    begin alike. Else ``Misuse``."""
    who, colon, rest = name.partition(":")
    agent, slash, named = who.partition("/") if colon else ("", "", "")
    begin = (rest if colon else name).strip().lower()
    account = named if slash else account
    if len(begin) < LEAST:
        raise Misuse(f'"{name}" is too short for a session\'s id; give {LEAST} characters or more of it')
    here = [place for place in places if agent in ("", place.agent) and account in (None, place.account)]
    found = [(place, stored) for place in here for stored in _beginning(place, begin)]
    whole = [each for each in found if each[1].id.lower() == begin]
    found = whole or found
    if not found:
        raise Misuse(f'there is no session "{name}"; segue sessions ls --all shows those there are')
    names = {f"{place.agent}{_account(place)}:{stored.id}" for place, stored in found}
    if len(names) > 1:
        raise Misuse(f'several sessions begin with "{name}": {", ".join(sorted(names)[:5])}')
    place, stored = max(found, key=lambda each: each[1].changed_ns)
    return Listed(place, stored, place.reader.brief(stored))


def newest(places: Iterable[Place], here: Path, memory: Path | None = None) -> Listed:
    """The session of a directory that was used last, as the CLIs' own ``--continue`` would take it."""
    for each in in_directory(listed(places, memory), here):
        if not each.brief.empty:
            return each
    raise Misuse(f"no agent has a session in {here}; segue sessions ls --all shows those elsewhere")


def short_names(ids: Iterable[str], least: int = 8) -> dict[str, str]:
    """For each id so much of it that no other one begins alike."""
    ordered = sorted(set(ids))
    names = {}
    for at, each in enumerate(ordered):
        beside = [ordered[n] for n in (at - 1, at + 1) if 0 <= n < len(ordered)]
        shared = max((_shared(each, other) for other in beside), default=0)
        names[each] = each[: max(least, shared + 1)]
    return names


def _shared(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def short_name(places: Iterable[Place], session: str) -> str:
    """So much of a session's id that no other one on this machine begins alike."""
    return short_names([session, *(each.id for place in places for each in place.reader.stored(place.home))])[
        session
    ]


def _account(place: Place) -> str:
    return f"/{place.account}" if place.account not in (None, place.agent) else ""


def _beginning(place: Place, begin: str) -> list[Stored]:
    return [stored for stored in place.reader.stored(place.home) if stored.id.lower().startswith(begin)]
