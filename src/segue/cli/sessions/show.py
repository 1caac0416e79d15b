"""``segue sessions show``: one session to read, the newest page first."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from segue.agents.base import entries_of
from segue.cli.render.output import say, say_json
from segue.core.usage import count_in_words

if TYPE_CHECKING:
    from segue.cli.render.transcript import Ink
    from segue.core.transcript import Entry
    from segue.sessions.listing import Listed

WHOLE_BYTES = 50 * 1024 * 1024
"""Sessions up to this size are counted whole; of larger ones only the newest page."""


@click.command("show", short_help="Read a session: what was said and done, page by page.")
@click.argument("session", metavar="ID")
@click.option(
    "--before", metavar="EVENT", help="Show the page before this event (its id, or the agent's own)."
)
@click.option("--at", metavar="EVENT", help="Show the page that ends with this event.")
@click.option(
    "--size", metavar="N", type=click.IntRange(1, 10_000), default=100, help="Events per page (default: 100)."
)
@click.option("--full", is_flag=True, help="Show tool output and long texts in full, and the agent's notes.")
@click.option("--side", is_flag=True, help="Show what subagents did, if that is in files of its own.")
@click.option("--follow", "-f", is_flag=True, help="Keep showing new events until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print {firstId, hasMore, size, events}; then one event per line."
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
    """Read a session of any agent: who said what, with tool calls in brief and side chains set apart.

    The newest page comes first; its top line says how to see the page before it. Only what a page needs is
    read, however large the session is.
    """
    from segue.app.segue import store_at_home
    from segue.cli.options import find_session
    from segue.sessions.catalog import SessionCatalog
    from segue.sessions.reading import end_of

    if sum((before is not None, at is not None, follow)) > 1:
        raise click.UsageError("--before, --at and --follow cannot be combined")
    with store_at_home(os.environ) as store:
        from pathlib import Path

        shelf = SessionCatalog(os.environ, store, Path.cwd())
        found = find_session(shelf, store, session)
        known = shelf.known(found.place.agent, found.id)
        window = known.row.context.window if known.row is not None else None
    reader, stored = found.place.reader, found.stored
    start = end_of(reader, stored) if follow else 0
    before_it = [] if stored.appends or not follow else [entry.id for entry in entries_of(reader, stored)]
    if as_json:
        shown = _print_json(found, before, at, size)
    else:
        shown = _print(found, before, at, size, full, known.conversation, None if follow else (window,))
        _side(found, full, whole=side)
    if follow:
        _follow(found, start, [*shown, *before_it], full, as_json)


def _print_json(found: Listed, before: str | None, at: str | None, size: int) -> list[str]:
    from segue.sessions.reading import newest_page, page_around

    reader, stored = found.place.reader, found.stored
    one = (
        page_around(reader, stored, at, size)
        if at
        else newest_page(reader, stored, before_id=before, size=size)
    )
    say_json(one)
    return [event.id for event in one.events]


def _print(
    found: Listed,
    before: str | None,
    at: str | None,
    size: int,
    full: bool,
    conversation: str | None,
    ending: tuple[int | None] | None,
) -> list[str]:
    """``ending``: the window, where it is told in the end what a resume would restore."""
    from segue.cli.render import transcript
    from segue.sessions.reading import all_entries, newest_page, page_around

    ink = transcript.ink(sys.stdout)
    reader, stored = found.place.reader, found.stored
    if at:
        one = page_around(reader, stored, at, size)
    else:
        wanted = all_entries if full else transcript.is_shown
        one = newest_page(reader, stored, before_id=before, size=size, wanted=wanted)
    for line in transcript.heading(found, conversation, ink):
        say(line)
    if one.has_more:
        say(ink.dim(f"… older: segue sessions show {found.id[:8]} --before {one.first_id}"))
    _entries(one.events, ink, full, mark=at)
    if before is None and at is None and ending is not None:
        whole = stored.size <= WHOLE_BYTES
        entries = entries_of(reader, stored) if whole else one.events
        for line in transcript.ending(found, entries, ink, whole=whole, window=ending[0]):
            say(line)
    return [event.id for event in one.events]


def _entries(entries: tuple[Entry, ...], ink: Ink, full: bool, mark: str | None = None) -> None:
    from segue.cli.render import transcript
    from segue.sessions.reading import is_called

    for entry in entries:
        if full or transcript.is_shown(entry):
            called = mark is not None and is_called(entry, mark)
            for line in transcript.entry_lines(entry, ink, full, marked=called):
                say(line)


def _side(found: Listed, full: bool, *, whole: bool) -> None:
    """What subagents did: set off by a bar, or only counted."""
    import msgspec

    from segue.cli.render import transcript

    reader, ink = found.place.reader, transcript.ink(sys.stdout)
    chains = reader.side(found.stored)
    if chains and not whole:
        say(ink.dim(f"{count_in_words(len(chains), 'side chain')} apart from the dialogue (--side)"))
    for chain in chains if whole else ():
        say(ink.bold(f"│ {chain.id}"))
        apart = (msgspec.structs.replace(entry, side=True) for entry in entries_of(reader, chain))
        _entries(tuple(apart), ink, full)


def _follow(found: Listed, start: int, shown: list[str], full: bool, as_json: bool) -> None:
    from segue.cli.render import transcript
    from segue.sessions.reading import follow_session

    ink = transcript.ink(sys.stdout)
    for entry in follow_session(found.place, found.stored, start, shown, stop=lambda: False):
        if as_json:
            say_json(entry)
        else:
            _entries((entry,), ink, full)
