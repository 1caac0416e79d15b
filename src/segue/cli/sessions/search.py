"""What a search found, as lines: session by session, each match with the way to it.

``segue sessions search``: full text over the sessions of all agents.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from segue.cli.render.dialogue import age
from segue.cli.render.output import BOLD, DIM, PLAIN, coloured, say, say_json, width_of
from segue.cli.render.table import columns, cut, fitted
from segue.cli.render.words import below_home, one_line
from segue.sessions.agent_homes import AgentHome
from segue.sessions.search.index import Index
from segue.sessions.search.search import Hit
from segue.sessions.summary import title_of
from segue.system import clock

if TYPE_CHECKING:
    from segue.sessions.catalog import SessionCatalog


SHORT = 8
"""An id is shown by so many characters, or by as many as tell it apart."""


def match_lines(
    hits: Sequence[Hit], index: Index, places: Sequence[AgentHome], now_ms: int | None = None
) -> Iterator[str]:
    """Session by session: which it is, then each match and how to get there."""
    now = clock.now_ms() if now_ms is None else now_ms
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
        yield lead + mark_words(hit, max(width - len(lead), 20), colour=colour)
        jump = f"{'':16}segue sessions show {names.short(hit)} --at {hit.place}"
        yield f"{DIM}{jump}{PLAIN}" if colour else jump


def mark_words(hit: Hit, room: int, *, colour: bool) -> str:
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

    def __init__(self, index: Index, places: Sequence[AgentHome]) -> None:
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
                stored = place.find(hit.session)
                if stored is not None:
                    return title_of(place.reader.brief(stored)) or ""
        return ""


_AGO = re.compile(r"(\d{1,6})\s*(min|h|d|w)")
_SECONDS = {"min": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


@click.command("search", short_help="Search the text of all sessions.")
@click.argument("words", metavar='"WORDS"', nargs=-1, required=True)
@click.option("--agent", "agents", metavar="A", multiple=True, help="Search only this agent. Repeatable.")
@click.option("--since", metavar="T", help="Only newer than 7d, 12h, 2w, or since a date: 2026-11-01.")
@click.option(
    "--in",
    "where",
    type=click.Choice(["tool", "text"]),
    help="Search tool calls and their output, or what was said.",
)
@click.option("--here", is_flag=True, help="Search only sessions begun in this directory or below it.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1_000),
    default=20,
    help="Show at most N matches (default: 20).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.option("--no-index", is_flag=True, help="Search only what is already indexed.")
def command(
    words: tuple[str, ...],
    agents: tuple[str, ...],
    since: str | None,
    where: Literal["tool", "text"] | None,
    here: bool,
    limit: int,
    as_json: bool,
    no_index: bool,
) -> None:
    """Search what was said and done in the sessions of all agents, the best and newest matches first.

    All words must be in the same message. "Quoted words" are a phrase, word* is the beginning of a word. What
    is new since the last search is indexed first.

    \b
    segue sessions search 'refresh "expired token"' --since 7d
    """
    from segue.app.segue import store_at_home
    from segue.sessions.catalog import SessionCatalog
    from segue.sessions.search.query import parsed
    from segue.sessions.search.search import Wanted, search

    wanted = Wanted(
        text=" ".join(words),
        agents=agents,
        since_ms=since_ms(since, clock.now_s()) if since is not None else None,
        where=where,
        here=Path.cwd() if here else None,
        limit=limit,
    )
    parsed(wanted.text)
    with store_at_home(os.environ) as store:
        shelf = SessionCatalog(os.environ, store, Path.cwd())
    _check(agents, shelf)
    with _index(shelf, no_index) as index:
        hits = search(index, shelf.places, wanted)
        if as_json:
            say_json(hits)
            return
        for line in match_lines(hits, index, shelf.places):
            say(line)
    if not hits:
        say("Nothing found.", err=True)


def since_ms(text: str, now_s: float) -> int:
    """``7d``, ``12h``, ``2w``, ``30min``, or a day (and time) of the local calendar."""
    from datetime import datetime

    from segue.core.errors import Misuse

    if ago := _AGO.fullmatch(text.strip().lower()):
        return int((now_s - int(ago[1]) * _SECONDS[ago[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise Misuse(
            f"--since {text}: give a time such as 7d, 12h or 2w, or a date such as 2026-11-01"
        ) from None


def _check(agents: Sequence[str], shelf: SessionCatalog) -> None:
    from segue.agents.registry import names
    from segue.core.errors import Misuse

    for agent in agents:
        if agent not in (known := names(shelf.config)):
            raise Misuse(f'there is no agent "{agent}". Known: {", ".join(known)}')


@contextmanager
def _index(shelf: SessionCatalog, as_it_is: bool) -> Iterator[Index]:
    from segue.sessions.search.index import open_index
    from segue.sessions.search.update import updated

    if as_it_is:
        with open_index(shelf.home.index) as index:
            yield index
        return
    with _shown() as progress:
        index, done = updated(shelf.home.index, shelf.places, progress)
    if done.busy:
        say("Another segue is updating the index; this is what it holds so far.", err=True)
    with index:
        yield index


@contextmanager
def _shown() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; elsewhere a line now and then, if it takes long."""
    from segue.cli.render.output import progress

    steps = 1_000
    with progress("indexing the sessions", steps) as went:
        yield _Told() if not sys.stderr.isatty() else lambda done, total: went(done * steps // max(total, 1))


class _Told:
    PATIENCE_S = 5.0

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._said > self.PATIENCE_S:
            self._said = time.monotonic()
            say(f"indexing the sessions: {done * 100 // max(total, 1)} %", err=True)
