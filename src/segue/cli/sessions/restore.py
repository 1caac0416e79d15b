"""``segue sessions restore``: bring a session back from our copy; or list the copies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.system import clock

if TYPE_CHECKING:
    from segue.config.schema import Config
    from segue.sessions.copies.restore import CopyShown
    from segue.store.copies import KeptRow
    from segue.store.store import Store

HEAD = ("agent", "session", "kept", "size", "kept size", "", "conversation")
RIGHT = (2, 3, 4)
LEAST = (3, 4, 2)
"""The columns that a narrow terminal goes without, in this order."""
KEY_ROOM = 12


@click.command("restore", short_help="Restore a session from the copy that Segue kept.")
@click.argument("session", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, or an array of all copies.")
def command(session: str | None, as_json: bool) -> None:
    """Restore a session from the copy that Segue kept of it. Without ID: list the copies.

    ID is the session's id or the beginning of it (at least 4 characters), if needed as AGENT:ID or
    AGENT/ACCOUNT:ID; or a conversation's key. The session is restored to its old place, and nothing is
    overwritten. If a conversation's session is gone, its next turn does this by itself.
    """
    from segue.app.segue import store_at_home
    from segue.cli.render.output import say, say_json
    from segue.config.load import load

    with store_at_home(os.environ) as store:
        config = load(os.environ, Path.cwd())
        if session is None:
            _list(store, config, as_json)
            return
        done = [_restored(store, config, row) for row in _missing(store, config, session)]
    if as_json:
        say_json({"schema": 1, "restored": done})
        return
    for each in done:
        say(f"Restored {each['agent']}'s session {each['id']} to {each['path']}")


def _missing(store: Store, config: Config, name: str) -> list[KeptRow]:
    """Those of a conversation that are still there need nothing."""
    from segue.core.errors import Misuse
    from segue.sessions.copies.restore import choose_copy

    found = choose_copy(store, name)
    gone = [row for row in found if not _shown(store, config, row).present]
    if not gone:
        there = _shown(store, config, found[0])
        raise Misuse(f"{there.path} already exists; move it away to restore the copy")
    return gone


def _restored(store: Store, config: Config, row: KeptRow) -> dict[str, Any]:
    import anyio

    from segue.config.home import home_of, this_host
    from segue.turns.session_copies import restore_if_gone

    copy, home = _shown(store, config, row), home_of(os.environ)
    host = this_host(config.store.host, home)
    done = anyio.run(restore_if_gone, store, row, _home(config, row), home, host)
    facts = {"id": copy.id, "agent": copy.agent, "account": copy.account, "conversation": copy.conversation}
    return facts | {"path": str(done.path), "files": done.files, "size": done.size}


def _list(store: Store, config: Config, as_json: bool) -> None:
    from segue.cli.render.output import say, say_json, width_of
    from segue.sessions.copies.restore import shown_copies

    keys = {each.conversation.id: each.conversation.key for each in store.conversations()}
    copies = [shown_copies(row, _known_home(config, row), keys) for row in store.session_copies()]
    if as_json:
        say_json(copies)
    elif not copies:
        say("No copies are kept yet; every turn keeps one of its session.", err=True)
    else:
        for line in lines(copies, width_of(sys.stdout)):
            say(line)


def lines(copies: Sequence[CopyShown], width: int, now_ms: int | None = None) -> Iterator[str]:
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [HEAD, *(_cells(each, now) for each in copies)]
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST, room=KEY_ROOM)


def _cells(each: CopyShown, now: int) -> tuple[str, ...]:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age

    return (
        each.agent if each.account in (None, each.agent) else f"{each.agent} ({each.account})",
        each.id,
        age(each.kept, now),
        words.size(each.size),
        words.size(each.kept_size),
        "" if each.present else "gone",
        each.conversation or "",
    )


def _shown(store: Store, config: Config, row: KeptRow) -> CopyShown:
    from segue.sessions.copies.restore import shown_copies

    keys = {each.conversation.id: each.conversation.key for each in store.conversations()}
    return shown_copies(row, _home(config, row), keys)


def _known_home(config: Config, row: KeptRow) -> Path | None:
    """None: it belongs nowhere on this host."""
    from segue.core.errors import Misuse

    try:
        return _home(config, row)
    except Misuse:
        return None


def _home(config: Config, row: KeptRow) -> Path:
    from segue.config.home import home_of, this_host
    from segue.sessions.copies.restore import home_on

    return home_on(row, this_host(config.store.host, home_of(os.environ)), config, os.environ)
