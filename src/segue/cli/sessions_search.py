"""``segue sessions search``: full text over the sessions of all agents."""

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

from segue.cli.output import say, say_json

if TYPE_CHECKING:
    from segue.sessions.index import Index
    from segue.sessions.shelf import Shelf

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
    from segue.cli.matches import lines
    from segue.sessions.search import search
    from segue.sessions.search_query import parsed
    from segue.sessions.search_rows import Wanted
    from segue.sessions.shelf import Shelf
    from segue.turns.opening import opened

    wanted = Wanted(
        text=" ".join(words),
        agents=agents,
        since_ms=since_ms(since, time.time()) if since is not None else None,
        where=where,
        here=Path.cwd() if here else None,
        limit=limit,
    )
    parsed(wanted.text)
    with opened(os.environ) as store:
        shelf = Shelf(os.environ, store, Path.cwd())
    _check(agents, shelf)
    with _index(shelf, no_index) as index:
        hits = search(index, shelf.places, wanted)
        if as_json:
            say_json(hits)
            return
        for line in lines(hits, index, shelf.places):
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


def _check(agents: Sequence[str], shelf: Shelf) -> None:
    from segue.agents.registry import names
    from segue.core.errors import Misuse

    for agent in agents:
        if agent not in (known := names(shelf.config)):
            raise Misuse(f'there is no agent "{agent}". Known: {", ".join(known)}')


@contextmanager
def _index(shelf: Shelf, as_it_is: bool) -> Iterator[Index]:
    from segue.sessions.index import open_index
    from segue.sessions.indexing import updated

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
    from segue.cli.progress import progress

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
