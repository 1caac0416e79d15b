"""``segue sessions prune``: sessions that nobody needs any more; only shown, unless told to delete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import Amount
from segue.cli.render.output import agreed, say, say_json, width_of
from segue.core.usage import count_in_words
from segue.system import clock

if TYPE_CHECKING:
    from segue.sessions.prune import IdleHome, Prunable, Pruned

MB = 1024 * 1024
HEAD = ("agent", "session", "size", "last used", "conversation", "title")
RIGHT = (2, 3)
LEAST = (4,)
"""The column that a narrow terminal goes without."""


@click.command("prune", short_help="Delete sessions that are no longer needed.")
@click.option("--days", metavar="N", type=Amount(min=0), help="Not used for N days (default: 7).")
@click.option(
    "--larger-than", "larger", metavar="MB", type=Amount(min=0), help="Only sessions larger than this."
)
@click.option(
    "--agent", "agents", metavar="A", multiple=True, help="Only sessions of this agent. Repeatable."
)
@click.option("--cwd", metavar="D", type=click.Path(), help="Only sessions of this project directory.")
@click.option(
    "--keep-last",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Keep the newest N of each conversation.",
)
@click.option("--all-sessions", is_flag=True, help="Include sessions that Segue did not make.")
@click.option(
    "--confirm",
    metavar="CODE",
    help="With --all-sessions and no terminal: the code that belongs to the list.",
)
@click.option("--yes", is_flag=True, help="Delete them; without it, they are only shown.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(
    days: float | None,
    larger: float | None,
    agents: tuple[str, ...],
    cwd: str | None,
    keep_last: int,
    all_sessions: bool,
    confirm: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Show the sessions that are no longer needed, and the space they take; --yes deletes them.

    These are sessions that Segue made, that no conversation would continue, and that were not used for a week
    ([retention] days); and private homes of runners that are gone. A session that is pinned, running or named
    by you is never deleted.
    """
    from segue.app.segue import store_at_home
    from segue.cli.options import known_agents
    from segue.sessions.catalog import SessionCatalog, short_names
    from segue.sessions.prune import Rules, idle_homes, prunable, wanted

    with store_at_home(os.environ) as store:
        shelf = SessionCatalog(os.environ, store, Path.cwd())
        known_agents(agents, shelf.config.declared)
        limit = shelf.config.retention.days if days is None else days
        rules = Rules(
            days=limit,
            larger=round(larger * MB) if larger is not None else None,
            agents=agents,
            keep_last=keep_last,
            all_sessions=all_sessions,
        )
        found = prunable(shelf, store, rules, Path.cwd() / cwd if cwd is not None else None)
        chosen = [each for each in found if each.verdict.goes]
        whole = cwd is None and larger is None and not agents
        homes = idle_homes(shelf.home.runners, limit, wanted(shelf, store, chosen)) if whole else []
        names = short_names(each.id for each in shelf.all())
        if not yes:
            _show(found, [idle.home for idle in homes], names, as_json)
            return 0
        _confirm(chosen, names, confirm)
        done = _prune(shelf, store, chosen, homes)
    _told(done, names, as_json)
    return 1 if done.failed else 0


def _prune(shelf: Any, store: Any, chosen: Sequence[Prunable], homes: Sequence[IdleHome]) -> Pruned:
    import anyio

    from segue.sessions.prune import prune

    return anyio.run(prune, shelf, store, chosen, homes, shelf.home.locks)


def _confirm(chosen: Sequence[Prunable], names: Mapping[str, str], confirm: str | None) -> None:
    """What others made is deleted only by somebody who has seen this very list."""
    from segue.core.errors import Misuse

    foreign = [each for each in chosen if not each.verdict.candidate.known.ours]
    code = _code(foreign)
    if not foreign or confirm == code:
        return
    for line in lines(foreign, width_of(sys.stderr), names):
        say(line, err=True)
    if confirm is None and sys.stdin.isatty():
        these = "this session" if len(foreign) == 1 else f"these {len(foreign):,} sessions"
        if agreed(f"Delete {these}, which Segue did not make?"):
            return
        raise click.Abort
    were, them = ("session was", "it") if len(foreign) == 1 else ("sessions were", "them")
    what = f"{len(foreign):,} {were} not made by Segue (listed on stderr)"
    raise Misuse(f"{what}; to delete {them}, add --confirm {code}")


def _code(sessions: Sequence[Prunable]) -> str:
    """Stands for these sessions and no others."""
    from hashlib import sha256

    names = sorted(f"{each.session.place.agent}:{each.session.id}" for each in sessions)
    return sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _show(found: Sequence[Prunable], homes: Sequence[Path], names: Mapping[str, str], as_json: bool) -> None:
    from segue.cli.render import words

    goes = [each for each in found if each.verdict.goes]
    freed = sum(each.session.stored.size for each in goes)
    if as_json:
        _print_json(goes, homes, freed, deleted=False)
        return
    for line in lines(goes, width_of(sys.stdout), names):
        say(line)
    for home in homes:
        say(f"{home}: a runner's private home, no longer used")
    stay = len(found) - len(goes)
    kept = f"; {count_in_words(stay, 'session')} kept" if stay else ""
    if not goes and not homes:
        say(f"Nothing to delete{kept}.", err=True)
        return
    say(f"{count_in_words(len(goes), 'session')}, {words.size(freed)} would be freed{kept}.", err=True)
    say("To delete, run the same command with --yes.", err=True)


def _told(done: Pruned, names: Mapping[str, str], as_json: bool) -> None:
    from segue.cli.render import words

    if as_json:
        _print_json(done.deleted, done.homes, done.freed, deleted=True, failed=len(done.failed))
    for each, why in (*done.kept, *done.failed):
        say(f"segue: {each.session.id} stays: {why}", err=True)
    if not as_json:
        for line in lines(done.deleted, width_of(sys.stdout), names):
            say(line)
        say(f"{count_in_words(len(done.deleted), 'session')} deleted, {words.size(done.freed)} freed.")


def lines(
    sessions: Sequence[Prunable], width: int, names: Mapping[str, str], now_ms: int | None = None
) -> Iterator[str]:
    """A table of them; nothing where there are none."""
    from segue.cli.render import table

    now = clock.now_ms() if now_ms is None else now_ms
    rows = [HEAD, *(_cells(each, now, names) for each in sessions)]
    yield from table.table_lines(rows, width, right=RIGHT, least=LEAST) if sessions else ()


def _cells(each: Prunable, now: int, names: Mapping[str, str]) -> tuple[str, ...]:
    from segue.cli.render import words
    from segue.cli.render.dialogue import age
    from segue.sessions.summary import title_of

    session, known = each.session, each.verdict.candidate.known
    return (
        session.place.agent,
        names.get(session.id, session.id[:8]),
        words.size(session.stored.size),
        age(each.verdict.candidate.last_used_ms, now),
        known.conversation or "–" if known.ours else "not Segue's",
        words.one_line(title_of(session.brief) or ""),
    )


def _print_json(
    sessions: Sequence[Prunable], homes: Sequence[Path], freed: int, *, deleted: bool, failed: int = 0
) -> None:
    rows = [
        {
            "id": each.session.id,
            "agent": each.session.place.agent,
            "size": each.session.stored.size,
            "last_used": each.session.last_used_ms,
            "ours": each.verdict.candidate.known.ours,
            "conversation": each.verdict.candidate.known.conversation,
            "path": each.session.stored.file,
            "why": each.verdict.why,
        }
        for each in sessions
    ]
    told = {
        "schema": 1,
        "deleted": deleted,
        "freed": freed,
        "failed": failed,
        "sessions": rows,
        "homes": [str(home) for home in homes],
    }
    say_json(told)
