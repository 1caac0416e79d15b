"""What a search found, as lines: session by session, each match with the way to it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from segue.cli.dialogue import age
from segue.cli.output import BOLD, DIM, PLAIN, coloured, width_of
from segue.cli.widths import columns, cut, fitted
from segue.cli.words import below_home, one_line
from segue.sessions.index import Index
from segue.sessions.places import Place
from segue.sessions.search import Hit
from segue.sessions.shown import title_of

SHORT = 8
"""An id is shown by so many characters, or by as many as tell it apart."""


def lines(
    hits: Sequence[Hit], index: Index, places: Sequence[Place], now_ms: int | None = None
) -> Iterator[str]:
    """Session by session: which it is, then each match and how to get there."""
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    colour, width = coloured(sys.stdout), width_of(sys.stdout)
    names = _Names(index, places)
    before: tuple[str, str] | None = None
    for hit in hits:
        if (hit.agent, hit.path) != before:
            if before is not None:
                yield ""
            head = names.head(hit, width)
            yield f"{BOLD}{head}{PLAIN}" if colour else head
        before = (hit.agent, hit.path)
        when = age(hit.at, now) if hit.at is not None else ""
        lead = f"  {when:>12}  {hit.kind:<9}  "
        yield lead + marked(hit, max(width - len(lead), 20), colour=colour)
        jump = f"{'':16}segue sessions show {names.short(hit)} --at {hit.place}"
        yield f"{DIM}{jump}{PLAIN}" if colour else jump


def marked(hit: Hit, room: int, *, colour: bool) -> str:
    """The snippet with its matches marked; where it is too long, what is around the first one."""
    opening, closing = (BOLD, PLAIN) if colour else ("[", "]")
    room -= 0 if colour else 2 * len(hit.highlights)
    text, begun, whole = hit.snippet, 0, len(hit.snippet)
    if columns(text) > room and hit.highlights:
        begun = max(hit.highlights[0][0] - room // 3, 0)
        text = f"…{text[begun + 1 :]}" if begun else text
    if columns(text) > room:
        text = cut(text, max(room - 1, 1)) + "…"
        whole = len(text) - 1
    shown, at = "", 0
    for first, last in ((first - begun, last - begun) for first, last in hit.highlights):
        if last > whole:
            break
        shown += f"{text[at:first]}{opening}{text[first:last]}{closing}"
        at = last
    return shown + text[at:]


class _Names:
    """How sessions are called in a list."""

    def __init__(self, index: Index, places: Sequence[Place]) -> None:
        self._ids = {file.session for file in index.files()}
        self._places = {(place.agent, str(place.home)): place for place in places}

    def short(self, hit: Hit) -> str:
        for length in range(SHORT, len(hit.session)):
            begin = hit.session[:length]
            if sum(each.startswith(begin) for each in self._ids) == 1:
                return begin
        return hit.session

    def head(self, hit: Hit, width: int) -> str:
        """Which session it is; of a title as much as fits."""
        who = f"{hit.agent} ({hit.account})" if hit.account not in (None, hit.agent) else hit.agent
        parts = (who, self.short(hit), below_home(hit.cwd or ""), one_line(self._title(hit)))
        return fitted(" · ".join(part for part in parts if part), width)

    def _title(self, hit: Hit) -> str:
        for (agent, home), place in self._places.items():
            if agent == hit.agent and hit.path.startswith(home):
                stored = place.reader.find(place.home, hit.session)
                if stored is not None:
                    return title_of(place.reader.brief(stored)) or ""
        return ""
