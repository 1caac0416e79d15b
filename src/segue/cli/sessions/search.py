"""``segue sessions search``: full-text search over the sessions of all agents."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

import click

from segue.cli.render.dialogue import age
from segue.cli.render.output import BOLD, DIM, PLAIN, coloured, say, say_json, width_of
from segue.cli.render.table import columns, cut, fitted
from segue.cli.render.words import below_home, one_line
from segue.system import clock

if TYPE_CHECKING:
    from segue import Hit
    from segue.app.native import SearchResult


@click.command("search", short_help="Search the text of all sessions.")
@click.argument("words", metavar='"WORDS"', nargs=-1, required=True)
@click.option("--agent", "agents", metavar="A", multiple=True, help="Search only this agent. Repeatable.")
@click.option(
    "--since",
    metavar="T",
    help="Only what is newer than T: an age such as 7d, 12h or 2w, or a date such as 2026-11-01.",
)
@click.option(
    "--in",
    "where",
    type=click.Choice(["tool", "text"]),
    help="Search only tool calls and their output (tool), or only what was said (text).",
)
@click.option("--here", is_flag=True, help="Search only sessions started in this directory or below it.")
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
    """Search what was said and done in the sessions of all agents, best and newest matches first.

    All words must be in the same message. "Quoted words" match as a phrase, word* matches the beginning of a
    word. New text is indexed before the search.

    \b
    segue sessions search 'refresh "expired token"' --since 7d
    """
    from segue.app import native
    from segue.cli.caller import open_here

    with open_here() as workspace, nullcontext() if no_index else _progress() as on_progress:
        result = native.search(
            workspace,
            " ".join(words),
            agents=agents,
            since=since,
            where=where,
            here=here,
            limit=limit,
            index=not no_index,
            on_progress=on_progress,
        )
    _print(result, as_json)


def _print(result: SearchResult, as_json: bool) -> None:
    if result.busy:
        say("Another segue process is updating the index; these are the matches so far.", err=True)
    if as_json:
        say_json(result.hits)
        return
    for line in match_lines(result):
        say(line)
    if not result.hits:
        say("Nothing found.", err=True)


def match_lines(result: SearchResult, now_ms: int | None = None) -> Iterator[str]:
    """For each session a heading, then each match and the command that shows it."""
    now = clock.now_ms() if now_ms is None else now_ms
    colour, width = coloured(sys.stdout), width_of(sys.stdout)
    before: tuple[str, str] | None = None
    for hit in result.hits:
        if (hit.agent, hit.path) != before:
            if before is not None:
                yield ""
            head = _head(hit, result, width)
            yield f"{BOLD}{head}{PLAIN}" if colour else head
        before = (hit.agent, hit.path)
        when = age(hit.at, now) if hit.at is not None else ""
        lead = f"  {when:>12}  {hit.kind:<9}  "
        yield lead + mark_words(hit, max(width - len(lead), 20), colour=colour)
        jump = f"{'':16}segue sessions show {result.short_name(hit)} --at {hit.place}"
        yield f"{DIM}{jump}{PLAIN}" if colour else jump


def _head(hit: Hit, result: SearchResult, width: int) -> str:
    """Agent, id, directory and title of the session, cut to the width."""
    who = f"{hit.agent} ({hit.account})" if hit.account not in (None, hit.agent) else hit.agent
    parts = (who, result.short_name(hit), below_home(hit.cwd or ""), one_line(result.title(hit)))
    return fitted(" · ".join(part for part in parts if part), width)


def mark_words(hit: Hit, room: int, *, colour: bool) -> str:
    """The snippet with its matches marked. If it is too long, only the part around the first match."""
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


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal; elsewhere, print a line now and then if it takes long."""
    from segue.cli.render.output import progress

    steps = 1_000
    with progress("indexing the sessions", steps) as advance:
        yield (
            _Lines()
            if not sys.stderr.isatty()
            else lambda done, total: advance(done * steps // max(total, 1))
        )


class _Lines:
    """Prints a line every few seconds."""

    PATIENCE_S = 5.0

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._last > self.PATIENCE_S:
            self._last = time.monotonic()
            say(f"indexing the sessions: {done * 100 // max(total, 1)} %", err=True)
