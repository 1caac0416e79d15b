"""``segue sessions show``: read one session, the newest page first."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from segue.cli.render.output import say, say_json
from segue.core.usage import count_in_words

if TYPE_CHECKING:
    from segue import Page
    from segue.app.native import OpenSession
    from segue.cli.render.transcript import Ink
    from segue.core.transcript import Entry

WHOLE_BYTES = 50 * 1024 * 1024
"""Of larger sessions, only the beginning and the end are counted."""


@click.command("show", short_help="Read a session: what was said and done, page by page.")
@click.argument("session", metavar="ID")
@click.option(
    "--before", metavar="EVENT", help="Show the page before this event (its id here, or the agent's own id)."
)
@click.option("--at", metavar="EVENT", help="Show the page that ends with this event.")
@click.option(
    "--size", metavar="N", type=click.IntRange(1, 10_000), default=100, help="Events per page (default: 100)."
)
@click.option("--full", is_flag=True, help="Show tool output and long texts in full, and the agent's notes.")
@click.option("--side", is_flag=True, help="Also show what subagents did, if it is in separate files.")
@click.option("--follow", "-f", is_flag=True, help="Keep showing new events until Ctrl-C.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print {firstId, hasMore, size, events, lastId, hasNewer}; with --follow, then one event per line.",
)
def command(
    session: str,
    before: str | None,
    at: str | None,
    size: int,
    full: bool,
    side: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Read a session of any agent: who said what, and the tool calls in brief.

    The newest page comes first; its top line says how to see the page before it. Only the part of the session
    that the page needs is read, however large the session is.
    """
    from segue.app import native
    from segue.cli.caller import open_here

    if sum((before is not None, at is not None, follow)) > 1:
        raise click.UsageError("--before, --at and --follow cannot be combined")
    with open_here() as workspace:
        found = native.find(workspace, session)
    following = found.followed() if follow else None
    if as_json:
        page = found.page(before=before, at=at, size=size)
        say_json(page)
    else:
        page = _print(found, before, at, size, full, ending=not follow)
        _side(found, full, whole=side)
    if following is not None:
        _follow(following(event.id for event in page.events), full, as_json)


def _print(
    found: OpenSession, before: str | None, at: str | None, size: int, full: bool, *, ending: bool
) -> Page:
    """Print a page. ``ending``: after the newest page, print what a resume would restore."""
    from segue.cli.render import transcript

    ink = transcript.ink(sys.stdout)
    wanted = None if full else transcript.is_shown
    page = found.page(before=before, at=at, size=size, wanted=wanted)
    for line in transcript.heading(found.shown, ink):
        say(line)
    if page.has_more:
        say(ink.dim(f"… older: segue sessions show {found.id[:8]} --before {page.first_id}"))
    _entries(page.events, ink, full, mark=at)
    if before is None and at is None and ending:
        for line in transcript.ending(found.shown, found.tally(WHOLE_BYTES), found.load, ink):
            say(line)
    return page


def _entries(entries: Iterable[Entry], ink: Ink, full: bool, mark: str | None = None) -> None:
    from segue.cli.render import transcript

    for entry in entries:
        if full or transcript.is_shown(entry):
            marked = mark is not None and mark in (entry.id, entry.native)
            for line in transcript.entry_lines(entry, ink, full, marked=marked):
                say(line)


def _side(found: OpenSession, full: bool, *, whole: bool) -> None:
    """Print what subagents did, with a bar at the left; or only count it."""
    from segue.cli.render import transcript

    ink, chains = transcript.ink(sys.stdout), found.side_chains()
    if chains and not whole:
        say(ink.dim(f"{count_in_words(len(chains), 'side chain')} of subagents not shown (--side)"))
    for chain, entries in chains if whole else ():
        say(ink.bold(f"│ {chain}"))
        _entries(entries, ink, full)


def _follow(entries: Iterable[Entry], full: bool, as_json: bool) -> None:
    from segue.cli.render import transcript

    ink = transcript.ink(sys.stdout)
    for entry in entries:
        if as_json:
            say_json(entry)
        else:
            _entries((entry,), ink, full)
